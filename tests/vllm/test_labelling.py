"""From prompts to a routed request on real servers: two models asked and judged by vLLM, heads, a sweep."""

from __future__ import annotations

import gzip
import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("vllm", reason="needs the CPU build of vLLM")

import pyarrow.parquet as pq

from rbx.serve.launch.devices import CORES
from tests.vllm.live_server import NAME, serve
from tests.vllm.tiny_model import make_model
from tests.workplace import ROOT, Workplace

pytestmark = pytest.mark.vllm

PROMPTS = 60
MAX_TOKENS = 48
TEMPLATE = "{% for message in messages %}w100 {{ message['content'] }} w200 {% endfor %}w300"
# Any of these words ends an answer, so that lengths differ: one word in 64 of a model that is nearly uniform.
STOP_IDS = list(range(64, 1024, 64))


def problems(folder: Path) -> Path:
    """Made-up problems in the layout of GSM8K's release."""
    rows = [
        {
            "question": f"A shop sells {at + 3} apples and {2 * at + 1} pears. How many fruits is that?",
            "answer": f"{at + 3} + {2 * at + 1} = {3 * at + 4}\n#### {3 * at + 4}",
        }
        for at in range(PROMPTS)
    ]
    with gzip.open(folder / "train.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return folder


def spec(place: Path, urls: list[str]) -> dict[str, Any]:
    endpoint = {"served_name": NAME, "concurrency": 8, "deadline_s": 60.0}
    return {
        "name": "asked",
        "description": "Problems asked of two servers.",
        "source": {
            "kind": "label",
            "prompts": {"total": 40, "sources": [{"kind": "gsm8k", "path": str(problems(place))}]},
            "generation": {
                "temperature": 1.0,
                "max_tokens": MAX_TOKENS,
                "extra": {"stop_token_ids": STOP_IDS},
            },
            "models": [
                {"name": name, "endpoint": {"url": f"{url}/v1", **endpoint}}
                for name, url in zip(("deep", "shallow"), urls, strict=True)
            ],
            "judges": [
                {
                    "name": "judge",
                    "model": "a model that knows no language",
                    "max_tokens": 32,
                    "endpoint": {"url": f"{urls[0]}/v1", **endpoint},
                }
            ],
            "signals": [
                {"kind": "judge", "name": "judged", "judge": "judge"},
                {"kind": "numeric", "name": "numeric"},
                {"kind": "length", "name": "length"},
            ],
            "quality": "length",
        },
    }


def pool() -> dict[str, Any]:
    """The smallest and the largest tier of the paper's pool, serving the two models."""
    whole: dict[str, Any] = yaml.safe_load((ROOT / "experiments/pools/paper.yaml").read_text())
    tiers = [whole["tiers"][0] | {"model": "deep"}, whole["tiers"][-1] | {"model": "shallow"}]
    return {"name": "two", "tiers": tiers}


EXPERIMENT = {
    "name": "routed",
    "grid": "datasets/asked",
    "bundle": "bundle",
    "pool": "pool.yaml",
    "workload": {"split": "all", "rates_per_s": [4.0], "n_requests": 60, "seeds": [0]},
    "policies": [{"kind": "routebalance", "weights": [[0.8, 0.1, 0.1]]}, {"kind": "passthrough"}],
}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    """A workplace with the grid built; the servers are gone by then."""
    place = Workplace(tmp_path_factory.mktemp("asked"))
    template = place.folder / "template.jinja"
    template.write_text(TEMPLATE)
    with ExitStack() as servers:
        urls = []
        cores = sorted(os.sched_getaffinity(0))  # one each: on the same core two servers stop each other
        for number, (name, layers) in enumerate((("deep", 2), ("shallow", 1))):
            home = tmp_path_factory.mktemp(name)
            model = make_model(home / "model", hidden=128, layers=layers, context=2048)
            options = ["--chat-template", str(template)]
            core = {CORES: str(cores[number % len(cores)])}
            urls.append(servers.enter_context(serve(model, home, options, core)).url)
        (place.folder / "asked.yaml").write_text(yaml.safe_dump(spec(place.folder, urls)))
        place.rbx("build-dataset", "asked.yaml")
    return place


def rows(place: Workplace, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(place.folder / f"datasets/asked/{table}.parquet").to_pylist()
    return found


def test_both_models_answered_every_prompt_and_the_servers_counted_the_tokens(asked: Workplace) -> None:
    answers = rows(asked, "responses")
    assert len(answers) == 2 * 40
    assert {row["status"] for row in answers} <= {"ok", "empty"}
    assert {row["tokens_source"] for row in answers} == {"usage"}
    assert {row["finish_reason"] for row in answers} == {"stop", "length"}
    for row in answers:
        assert 1 <= row["output_tokens"] <= MAX_TOKENS
        assert (row["output_tokens"] == MAX_TOKENS) >= (row["finish_reason"] == "length")
    # Two templates would have counted their words twice: 3 of the template, the rest of the prompt.
    words = {row["prompt_id"]: len(row["prompt"].split()) for row in rows(asked, "prompts")}
    assert {row["input_tokens"] - words[row["prompt_id"]] for row in answers} == {3}


def test_a_judge_that_writes_garbage_scores_nothing_and_what_it_wrote_is_kept(asked: Workplace) -> None:
    judged = [
        row for row in rows(asked, "labels") if row["metric"] == "judged" and row["status"] != "missing"
    ]
    assert len(judged) >= 70
    for row in judged:
        assert (row["score"], row["status"]) == (None, "judge_failed")
        assert row["raw"].split()[0][0] == "w"
    assert asked.rbx("dataset", "check", "datasets/asked").returncode == 0


def test_heads_are_trained_on_it_and_requests_routed_by_them(asked: Workplace) -> None:
    (asked.folder / "pool.yaml").write_text(yaml.safe_dump(pool()))
    (asked.folder / "routed.yaml").write_text(yaml.safe_dump(EXPERIMENT))
    words = ("--pool", "pool.yaml", "--out", "bundle", "--encoder", "static", "--no-compare")
    asked.rbx("train", "datasets/asked", *words)
    asked.rbx("sweep", "routed.yaml", "--out", "results", "--jobs", "1")
    cells = sorted((asked.folder / "results/cells").glob("*.parquet"))
    assert len(cells) == 1 + 3
    served = set()
    for cell in cells:
        records = pq.read_table(cell)
        assert set(records["status"].to_pylist()) == {"ok"}
        served |= set(records["model"].to_pylist())
    assert served == {"deep", "shallow"}
