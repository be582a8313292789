"""``python -m tests.validation``: the engine beside a real vLLM run on an RTX 4090, as tables."""

from __future__ import annotations

import importlib.util
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from tests.validation.errors import by_band
from tests.validation.operator_tables import OperatorTables
from tests.validation.recorded_run import FOLDER, read_run
from tests.validation.replay import served, served_by_vllm
from tests.validation.step_fits import composed, scaled
from tests.validation.tables import print_distributions, print_errors, print_experiments
from tests.workplace import ROOT


def main() -> int:
    data = Path(os.environ.get("RBX_SHARED", ROOT.parent / "shared")) / "data"
    if not (data / FOLDER).is_dir():
        print(
            "tests.validation: no recorded run to compare with; set RBX_SHARED to the folder that has data/"
        )
        return 0
    run = read_run(data)
    everyone = np.ones(len(run.arrival_s), dtype=bool)
    print(f"vLLM {run.vllm_version}, Llama-3.1-8B on an RTX 4090: {len(everyone)} requests at 10/s")

    from_tables, off = composed(OperatorTables.read(data))
    by_tables = served(run, from_tables)
    title = f"(i) Operators of an L40S, carried over by rooflines; B is within {100 * off:.1f} % of them"
    print_errors(title, by_band(run, by_tables, everyone))

    # The first answer ends here: until then nobody has come back after a preemption.
    until_s = float(run.last_token_s.min())
    fitted, (other, prefill) = scaled(run, from_tables, until_s)
    by_fit, later = served(run, fitted), run.first_token_s > until_s
    title = (
        f"(ii) Prices of (i), those of prefill × {prefill:.3f} and the others × {other:.3f}, fitted to the "
        f"first {until_s:.1f} s: requests"
    )
    print_errors(f"{title} with a first token after that", by_band(run, by_fit, later))
    print_errors(f"{title} with a first token within: not a prediction", by_band(run, by_fit, ~later))

    variants = {
        "the engine": by_fit,
        "without asynchronous scheduling": served(run, fitted, async_scheduling=False),
        "without full-prompt admission": served(run, fitted, reserve_full_prompt=False),
        "arrivals when vLLM queued them": served(replace(run, arrival_s=run.queued_s), fitted),
        "one KV block more": served(run, fitted, kv_blocks=run.limits.kv_blocks + 1),
    }
    replays = {"(i)": by_tables, "(ii)": by_fit}
    if importlib.util.find_spec("vllm"):
        for cache, prefix_caching in (("without", False), ("with", True)):
            name = f"vLLM's own scheduler {cache} prefix cache"
            variants[name] = served_by_vllm(run, fitted, prefix_caching=prefix_caching)
        replays["(ii) in vLLM's scheduler with prefix cache"] = variants[name]
    else:
        print("\nvLLM is not installed here: the effect of its prefix cache is left out")
    print_experiments(run, variants, later)
    print_distributions(run, replays)
    return 0


if __name__ == "__main__":
    sys.exit(main())
