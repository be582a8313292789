"""Signals for some sources only, and signals chosen by source."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.label.answer import Answer, Verdict
from rbx.label.signals.by_source import BySource
from rbx.label.signals.only_sources import OnlySources
from tests.label.signals.answers import answered, scored


class Fixed:
    """Scores every answer alike and keeps what it was asked."""

    def __init__(self, score: float, digest: str = "d", batch: int = 8, concurrency: int = 4) -> None:
        self.name = "fixed"
        self.digest = digest
        self.batch = batch
        self.concurrency = concurrency
        self.asked: list[str] = []
        self.closed = 0
        self._verdict = Verdict(score, "ok")

    async def score(self, answers: Sequence[Answer]) -> list[Verdict]:
        self.asked += [answer.response for answer in answers]
        return [self._verdict] * len(answers)

    async def alive(self) -> bool:
        return True

    async def close(self) -> None:
        self.closed += 1


def test_other_sources_are_not_scored() -> None:
    inner = Fixed(0.0)
    signal = OnlySources(inner, frozenset({"gsm8k"}))
    answers = [answered("1", source="squad"), answered("2", source="gsm8k"), answered("3", source="squad")]
    assert scored(signal, answers) == [
        Verdict(None, "missing", "not scored: source squad"),
        Verdict(0.0, "ok"),
        Verdict(None, "missing", "not scored: source squad"),
    ]
    assert inner.asked == ["2"]
    assert inner.closed == 1
    assert (signal.name, signal.digest, signal.batch, signal.concurrency) == ("fixed", "d", 8, 4)


def test_an_unscored_batch_does_not_trouble_the_signal() -> None:
    inner = Fixed(1.0)
    scored(OnlySources(inner, frozenset({"gsm8k"})), [answered("1", source="squad")])
    assert inner.asked == []


def test_each_source_has_its_signal() -> None:
    numeric, overlap, rest = Fixed(1.0), Fixed(0.25), Fixed(0.5)
    signal = BySource("q", {"gsm8k": numeric, "squad": overlap}, rest)
    answers = [answered(source, source=source) for source in ("squad", "lmsys", "gsm8k", "squad")]
    assert [verdict.score for verdict in scored(signal, answers)] == [0.25, 0.5, 1.0, 0.25]
    assert (numeric.asked, overlap.asked, rest.asked) == (["gsm8k"], ["squad", "squad"], ["lmsys"])
    assert numeric.closed == overlap.closed == rest.closed == 0  # their list closes them


def test_a_source_without_a_rule_is_missing() -> None:
    signal = BySource("q", {"gsm8k": Fixed(1.0)}, None)
    reason = "not scored: no rule for source lmsys"
    assert scored(signal, [answered("x", source="lmsys")]) == [Verdict(None, "missing", reason)]


@settings(deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=20))
def test_order_is_kept(sources: list[str]) -> None:
    signal = BySource("q", {"a": Fixed(0.1), "b": Fixed(0.2)}, OnlySources(Fixed(0.3), frozenset({"c"})))
    wanted = {"a": 0.1, "b": 0.2, "c": 0.3, "d": None}
    verdicts = scored(signal, [answered("x", source=source) for source in sources])
    assert [verdict.score for verdict in verdicts] == [wanted[source] for source in sources]


def test_it_is_as_gentle_as_its_gentlest_delegate() -> None:
    signal = BySource("q", {"a": Fixed(0.1, batch=64, concurrency=1)}, Fixed(0.2, batch=1, concurrency=16))
    assert (signal.batch, signal.concurrency) == (1, 1)


def test_the_digest_follows_rules_and_delegates() -> None:
    one, two = Fixed(0.1, "1"), Fixed(0.1, "2")
    built = [
        BySource("q", {"a": one}, None),
        BySource("q", {"a": two}, None),
        BySource("q", {"b": one}, None),
        BySource("q", {"a": one}, two),
        BySource("q", {"a": one, "b": two}, None),
    ]
    assert len({signal.digest for signal in built}) == len(built)
    reordered = BySource("q", {"b": two, "a": one}, None)
    assert reordered.digest == built[-1].digest
