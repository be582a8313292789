"""The order of live cells: complete blocks, in which no policy has a place of its own."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from rbx.sweep.live.order import interleaved
from rbx.sweep.store import CellSpec


def cells(rates: list[float], seeds: list[int], policies: int) -> list[CellSpec]:
    return [
        CellSpec(f"{rate}-{seed}-{number}", f"policy {number}", {}, rate, None, seed, f"{rate}-{seed}", 10)
        for rate in rates
        for seed in seeds
        for number in range(policies)
    ]


@given(
    rates=st.lists(st.sampled_from([1.0, 2.5, 6.0, 12.0]), min_size=1, unique=True),
    seeds=st.lists(st.integers(0, 5), min_size=1, unique=True),
    policies=st.integers(1, 5),
    data=st.data(),
)
def test_each_cell_once_in_whole_blocks_whatever_the_order_of_the_file(
    rates: list[float], seeds: list[int], policies: int, data: st.DataObject
) -> None:
    given_cells = cells(rates, seeds, policies)
    ordered = interleaved(given_cells)
    assert sorted(cell.cell_id for cell in ordered) == sorted(cell.cell_id for cell in given_cells)
    blocks = [list(block) for _, block in groupby(ordered, key=lambda cell: (cell.rate_per_s, cell.seed))]
    assert len(blocks) == len(rates) * len(seeds)
    assert {len(block) for block in blocks} == {policies}
    assert interleaved(data.draw(st.permutations(given_cells))) == ordered


def test_every_policy_comes_first_and_last_now_and_then_and_rates_do_not_ascend() -> None:
    ordered = interleaved(cells([1.0, 2.0, 4.0, 8.0], [0, 1, 2, 3, 4], 3))
    first = Counter(cell.label for cell in ordered[::3])
    last = Counter(cell.label for cell in ordered[2::3])
    assert set(first) == set(last) == {"policy 0", "policy 1", "policy 2"}
    assert max(first.values()) <= 14
    rates = [cell.rate_per_s for cell in ordered[::3]]
    assert rates != sorted(rates)
    assert rates != sorted(rates, reverse=True)
