"""``python -m tests.vllm``: the whole comparison with vLLM, as a table; exit code 1 on a difference."""

from __future__ import annotations

import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields

import vllm

from tests.vllm.truth import Tally, compare

SCENES = int(os.environ.get("RBX_TRUTH_SCENES", "20000"))
BLOCK = 200


def main() -> int:
    each = max(1, SCENES // 2)
    starts = range(0, each, BLOCK)
    totals, differences = {False: Tally(), True: Tally()}, {False: 0, True: 0}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
        jobs = [
            (asynchronous, pool.submit(compare, range(start, min(start + BLOCK, each)), asynchronous))
            for start in starts
            for asynchronous in totals
        ]
        for number, (asynchronous, job) in enumerate(jobs, start=1):
            total, found = job.result()
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
