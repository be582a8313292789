"""What prefix caches have hit, by the names of several releases, and never a zero for what nobody told."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbx.sweep.live.prefix_cache import PrefixHits, prefix_hits, salt

SCRAPES = Path(__file__).parents[2] / "serve" / "watch" / "metrics"


def page(queries: float, hits: float, prefix: str = "vllm:prefix_cache") -> str:
    return "\n".join(
        [
            f"# TYPE {prefix}_queries counter",
            f'{prefix}_queries_total{{engine="0",model_name="a}} b"}} {queries}',
            f'{prefix}_queries_created{{engine="0",model_name="a}} b"}} 1.7e+09',
            f'{prefix}_hits_total{{engine="0",model_name="a}} b"}} {hits}',
            'vllm:num_requests_running{engine="0"} 3.0',
        ]
    )


def test_growth_is_summed_over_servers_and_their_engines() -> None:
    two = page(100, 10) + '\nvllm:prefix_cache_queries_total{engine="1"} 50\n'
    later = page(180, 30) + '\nvllm:prefix_cache_queries_total{engine="1"} 70\n'
    told = prefix_hits({"a/0": two, "a/1": page(1e6, 0)}, {"a/0": later, "a/1": page(1e6 + 300, 80)})
    assert told == PrefixHits(80 + 20 + 300, 20 + 80, (), ())
    assert told.rate == 0.25


def test_names_of_the_first_releases_of_vllm_v1_are_known() -> None:
    old = "vllm:gpu_prefix_cache"
    told = prefix_hits({"a/0": page(5, 5, old)}, {"a/0": page(15, 10, old)})
    assert (told.queries, told.hits, told.missing) == (10, 5, ())


def test_a_server_that_was_upgraded_amid_the_cell_still_counts_by_whatever_name() -> None:
    told = prefix_hits({"a/0": page(5, 5, "vllm:gpu_prefix_cache")}, {"a/0": page(15, 10)})
    assert (told.queries, told.hits) == (10, 5)


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "<html>502</html>",
        page(float("nan"), 1),
        page(-1, 1),
        page(1, float("inf")),
        'vllm:prefix_cache_queries_total{engine="0"} 7',
        page(1, 1).replace("} 1", "} one"),
        page(1, 1, "vllm:external_prefix_cache"),
    ],
)
def test_a_page_that_does_not_tell_is_missing_and_not_zero(broken: str) -> None:
    told = prefix_hits({"a/0": page(0, 0), "b/0": page(0, 0)}, {"a/0": broken, "b/0": page(10, 5)})
    assert told == PrefixHits(10, 5, ("a/0",), ())


def test_a_server_that_did_not_answer_once_is_missing() -> None:
    told = prefix_hits({"a/0": page(0, 0)}, {})
    assert told == PrefixHits(0, 0, ("a/0",), ())
    assert told.rate is None


def test_counters_that_went_back_belong_to_another_process() -> None:
    told = prefix_hits({"a/0": page(100, 50)}, {"a/0": page(20, 10)})
    assert told == PrefixHits(0, 0, (), ("a/0",))


def test_the_gateways_own_page_is_no_server() -> None:
    assert prefix_hits({"gateway": "rbx_up 1"}, {"gateway": "rbx_up 1"}) == PrefixHits(0, 0, (), ())


def test_a_page_of_a_real_release_is_read() -> None:
    text = (SCRAPES / "vllm_0_9_1.txt").read_text(encoding="utf-8")
    later = text.replace(" 40112.0", " 40212.0").replace(" 2192.0", " 2217.0")
    assert prefix_hits({"a/0": text}, {"a/0": later}) == PrefixHits(100, 25, (), ())


def test_each_cell_has_a_salt_of_its_own() -> None:
    assert salt("one") != salt("two")
    assert set(salt("one")) == {"cache_salt"}
