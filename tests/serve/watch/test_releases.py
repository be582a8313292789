"""Pages of several vLLM releases, and what is read from each."""

from __future__ import annotations

import pytest

from rbx.config.gateway import Watch
from rbx.engine.instance_profile import InstanceProfile
from rbx.serve.state.gauges import EngineGauges, parse_gauges
from rbx.serve.watch.instance import InstanceWatch
from rbx.serve.watch.lifetime import Lifetime
from tests.serve.watch.pages import METRICS, small_pool

READ = {
    "vllm_0_9_1": [EngineGauges("0", 12, 3, 0.12421495, 16, 6922, 9.0)],
    "vllm_0_9_2": [EngineGauges("0", 4, 0, 0.0601851, 16, 2165, 9.0)],
    "vllm_0_12_two_ranks": [
        EngineGauges("0", 20, 5, 0.5, 16, 30_000, 9.0),
        EngineGauges("1", 17, 0, 0.25, 16, 30_000, 9.0),
    ],
}
LIVES = {
    "vllm_0_9_1": Lifetime(
        1.74998411235e9,
        {
            "vllm:num_preemptions_total": 1.0,
            "vllm:prompt_tokens_total": 37920.0,
            "vllm:generation_tokens_total": 15811.0,
            "vllm:request_success_total": 81.0,
        },
    ),
    "vllm_0_9_2": Lifetime(
        1.75233921901e9, {"vllm:prompt_tokens_total": 9020.0, "vllm:generation_tokens_total": 3377.0}
    ),
    "vllm_0_12_two_ranks": Lifetime(
        None, {"vllm:prompt_tokens_total": 1800.0, "vllm:generation_tokens_total": 123457189.0}
    ),
}


def page(release: str) -> str:
    return (METRICS / f"{release}.txt").read_text(encoding="utf-8")


def test_every_page_has_its_reading() -> None:
    assert {path.stem for path in METRICS.glob("*.txt")} == set(READ) == set(LIVES)


@pytest.mark.parametrize("release", READ)
def test_gauges_of_a_release(release: str) -> None:
    assert list(parse_gauges(page(release), 9.0)) == READ[release]


@pytest.mark.parametrize("release", LIVES)
def test_signs_of_life_of_a_release(release: str) -> None:
    assert Lifetime.of(page(release)) == LIVES[release]


@pytest.mark.parametrize("release", READ)
def test_all_that_a_page_shows_is_traffic_of_others_where_we_sent_nothing(release: str) -> None:
    """Ranks behind one address count together; four seats hold the running ones that fit."""
    (instance,) = small_pool(max_num_seqs=64, kv_blocks=6000, max_model_len=2048).instances
    watch = InstanceWatch(InstanceProfile.of(instance.tier), [], Watch(), 9.0)
    watch.page(page(release), 9.0, 9.0)
    snapshot = watch.best(9.0).reading.snapshot
    running = sum(engine.running for engine in READ[release])
    waiting = sum(engine.waiting for engine in READ[release])
    assert (snapshot.running, len(snapshot.requests) - snapshot.running) == (running, waiting)
    assert watch.in_flight == 0


def test_counters_with_odd_values_and_names_alike_are_no_signs() -> None:
    text = (
        "vllm:generation_tokens_total NaN\n"
        "vllm:prompt_tokens_total -3\n"
        "vllm:prompt_tokens_total_created 5\n"
        'vllm:request_success_total{reason="stop"} 3.0\n'
        'vllm:request_success_total{reason="length"} 4.0\n'
        "process_start_time_seconds 1e999\n"
    )
    assert Lifetime.of(text) == Lifetime(None, {"vllm:request_success_total": 7.0})


@pytest.mark.parametrize(
    ("older", "newer", "restarted"),
    [
        (Lifetime(5.0, {"a": 9.0}), Lifetime(5.0, {"a": 9.0}), False),
        (Lifetime(5.0, {"a": 9.0}), Lifetime(5.0, {"a": 12.0}), False),
        (Lifetime(5.0, {"a": 9.0}), Lifetime(65.0, {"a": 12.0}), True),  # grown beyond the old count already
        (Lifetime(None, {"a": 9.0}), Lifetime(None, {"a": 8.0}), True),
        (Lifetime(5.0, {"a": 9.0}), Lifetime(None, {}), False),
        (Lifetime(None, {}), Lifetime(5.0, {"a": 9.0}), False),
        (Lifetime(65.0, {}), Lifetime(5.0, {}), False),  # one address, two processes: no life begins again
    ],
)
def test_a_new_life_has_a_later_start_or_lower_counts(
    older: Lifetime, newer: Lifetime, restarted: bool
) -> None:
    assert older.ended_before(newer) is restarted


def test_two_processes_behind_one_address_look_like_one_restart_at_most() -> None:
    first, second = Lifetime(5.0, {"a": 1.0}), Lifetime(65.0, {"a": 1.0})
    life, restarts = first, 0
    for newer in (second, first, second, first):
        restarts += life.ended_before(newer)
        life = life.followed_by(newer)
    assert restarts == 1
