"""``python -m tests.vllm``: the whole comparison with vLLM, as a table; exit code 1 on a difference."""

from __future__ import annotations

import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields

import vllm

from tests.vllm.truth import Tally, difference, scene, serve_with_vllm, tally

SCENES = int(os.environ.get("RBX_TRUTH_SCENES", "20000"))
BLOCK = 200


def compare(asynchronous: bool, first: int, beyond: int) -> tuple[bool, Tally, list[str]]:
    """Scenes ``first`` to ``beyond`` of one mode: what they reached, and what differed."""
    total, found = Tally(), []
    for seed in range(first, beyond):
        case = scene(seed, asynchronous)
        core = serve_with_vllm(case)
        total.add(tally(case, core))
        text = difference(case, core)
        if text:
            found.append(f"scene {seed}, asynchronous={asynchronous}: {text}")
    return asynchronous, total, found


def main() -> int:
    each = max(1, SCENES // 2)
    starts = range(0, each, BLOCK)
    totals, differences = {False: Tally(), True: Tally()}, {False: 0, True: 0}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
        jobs = [
            pool.submit(compare, asynchronous, start, min(start + BLOCK, each))
            for start in starts
            for asynchronous in totals
        ]
        for number, job in enumerate(jobs, start=1):
            asynchronous, total, found = job.result()
            totals[asynchronous].add(total)
            differences[asynchronous] += len(found)
            print(*found, sep="\n", end="\n" * bool(found), flush=True)
            print(f"\r{number} of {len(jobs)} blocks", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print(f"Batches formed by the engine and by vLLM {vllm.__version__}'s scheduler and core loop")
    print(f"{'':24}{'synchronous':>14}{'asynchronous':>14}")
    for column in fields(Tally):
        counts = [getattr(totals[asynchronous], column.name) for asynchronous in (False, True)]
        print(f"{column.name.replace('_', ' '):24}{counts[0]:>14,}{counts[1]:>14,}")
    print(f"{'scenes that differ':24}{differences[False]:>14,}{differences[True]:>14,}")
    return int(any(differences.values()))


if __name__ == "__main__":
    sys.exit(main())
