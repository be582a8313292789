"""Which live cells count, and what is said of those that do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rbx.config.live import Live
from rbx.load.client.health import ClientHealth
from rbx.load.client.result import not_sent
from rbx.sweep.live.summary import Lengths, PrefixCache
from rbx.sweep.live.target import Installed
from rbx.sweep.live.validity import lengths_by_tier, matches_by_tier, reasons, warnings
from tests.sweep.live.results import answered, ok, reading

LIVE = Live.model_validate({"target": {"kind": "gateway", "url": "http://127.0.0.1:8200"}})
HEALTHY = ClientHealth(
    asked_per_s=20.0,
    achieved_per_s=20.1,
    schedule_delay_p50_s=0.001,
    schedule_delay_p99_s=0.01,
    schedule_delay_max_s=0.2,
    loop_lag_p99_s=0.004,
    loop_lag_max_s=0.02,
    cpu_s=1.0,
    processes=1,
    sent=4,
    not_sent=0,
    started_unix_s=0.0,
)
OURS = Installed("policy", 2, "2-abc")


def verdict(
    installed: Installed = OURS, instance: str | None = "small_gpu/0", **changes: Any
) -> tuple[str, ...]:
    answers = answered(reading(), *(ok(k, instance) for k in range(4)))
    return reasons(LIVE, replace(HEALTHY, **changes), installed, answers)


def test_a_cell_on_schedule_counts() -> None:
    assert verdict() == ()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schedule_delay_p99_s": 0.0101}, "schedule delay is 10.1 ms, above 10 ms"),
        ({"achieved_per_s": 19.5}, "sent 19.5 requests/s where 20 were asked, off by 2.5%"),
        ({"achieved_per_s": 20.5}, "off by 2.5%"),
        ({"not_sent": 3, "sent": 1}, "3 requests were never sent"),
    ],
)
def test_a_client_that_was_late_makes_the_cell_invalid(change: dict[str, Any], words: str) -> None:
    (reason,) = verdict(**change)
    assert reason.startswith("client-bound: ")
    assert words in reason


REFUSED: dict[str, Any] = {"status": "error", "fault": "refused", "first_byte_s": None}
CUT: dict[str, Any] = {"status": "error", "fault": "cut", "first_byte_s": None}


@pytest.mark.parametrize(
    ("failed", "counts"),
    [
        ([], True),
        ([REFUSED], False),
        ([REFUSED, CUT], False),
        ([CUT, CUT], True),  # a connection that was closed while it lay idle
        ([{**CUT, "first_byte_s": 3.0}] * 2 + [REFUSED], True),  # streams that a server behind it broke off
        ([{"status": "error", "fault": "status", "http_status": 503}] * 4, True),
    ],
)
def test_a_target_that_refused_connections_was_gone_for_a_while(
    failed: list[dict[str, Any]], counts: bool
) -> None:
    results = [ok(k, "small_gpu/0", **change) for k, change in enumerate(failed)]
    results += [ok(k, "small_gpu/0") for k in range(len(failed), 20)]
    found = reasons(LIVE, HEALTHY, OURS, answered(reading(20), *results))
    assert [reason.split(":")[0] for reason in found] == ([] if counts else ["target_lost"])


def test_one_refused_connection_among_hundreds_is_a_result() -> None:
    results = [ok(0, "small_gpu/0", **REFUSED), *(ok(k, "small_gpu/0") for k in range(1, 200))]
    assert reasons(LIVE, HEALTHY, OURS, answered(reading(200), *results)) == ()


def test_a_schedule_of_one_request_has_no_rate_to_miss() -> None:
    assert verdict(asked_per_s=None, achieved_per_s=None) == ()


def test_answers_of_strangers_and_of_another_configuration_make_it_invalid() -> None:
    (reason,) = verdict(instance="elsewhere/0")
    assert reason == "wrong_model: 4 answers are of instances that the pool lacks, 4 of 'elsewhere/0'"
    (reason,) = verdict(Installed("policy", 3, "3-def"))
    assert reason.startswith("config_changed: 4 answers came under another configuration than 3-def")
    assert verdict(Installed("external")) == ()


def warned(
    *results: Any,
    warm_up: dict[str, int] | None = None,
    prefix: PrefixCache | None = None,
    lengths: dict[str, Lengths] | None = None,
    drained: bool | None = True,
) -> tuple[str, ...]:
    return warnings(answered(reading(), *results), warm_up or {}, prefix, lengths or {}, drained=drained)


def test_nothing_is_said_of_a_plain_cell() -> None:
    lengths = {"small_gpu": Lengths(2, 100, 109, 0)}
    own_hits = PrefixCache("salt", 1000.0, 500.0)
    assert warned(ok(0), ok(1), not_sent(2, 2.0), warm_up={"ok": 16}, prefix=own_hits, lengths=lengths) == ()


def test_each_thing_to_beware_of_is_counted() -> None:
    assert warned(warm_up={"ok": 15, "error": 1}) == ("1 of 16 warm-up requests failed",)
    (inherited,) = warned(prefix=PrefixCache("keep", 1000.0, 11.0))
    assert inherited.startswith("1.1% of the prompt tokens")
    assert warned(prefix=PrefixCache("keep", 1000.0, 10.0)) == ()
    (short,) = warned(lengths={"a": Lengths(2, 100, 80, 1), "b": Lengths(2, 100, 90, 1)})
    assert (
        short
        == "answers had 42.5 tokens on average where 50 were expected; 2 of 4 fell short by more than a tenth"
    )
    mute = ok(0, first_token_s=None, text="")
    assert warned(mute)[0].startswith("1 answers show no token")
    assert warned(ok(0, tokens_source="chunks"))[0].startswith("1 answers have no usage")
    assert warned(ok(0, usage_disagrees=True))[0].startswith("1 answers have a usage at odds")
    assert warned(ok(0, headers={"x-rbx-decision-mode": "fallback"}))[0].startswith(
        "1 requests were placed without"
    )
    assert warned(ok(0, headers={"x-rbx-decision-mode": "hopeless"})) == ()
    assert warned(drained=False) == ("the servers were still at work when the cell had ended",)
    (untold,) = warned(drained=None)
    assert "can't be told" in untold


def test_matches_and_lengths_are_by_the_tier_that_served() -> None:
    answers = answered(reading(), ok(0), ok(1, "large_gpu/0"), ok(2), ok(3, None), not_sent(4, 4.0))
    matches = matches_by_tier(answers, [True, None, False, None, None])
    assert {tier: (found.compared, found.matched) for tier, found in matches.items()} == {"small_gpu": (2, 1)}
    lengths = lengths_by_tier(answers, [30, 20, 22, None, None])
    assert lengths == {
        "small_gpu": Lengths(answers=2, asked_tokens=52, delivered_tokens=40, short=1),
        "large_gpu": Lengths(answers=1, asked_tokens=20, delivered_tokens=20, short=0),
    }
