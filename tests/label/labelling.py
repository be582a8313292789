"""A small labelling job: arithmetic asked of two scripted models and judged by a third."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.label.scripted_server import Reply, Rule, Scripted, answer, prompt_of, scripted

N_PROMPTS = 40


def question(at: int) -> str:
    return f"How much is {at} plus {at + 1}?"


def sum_of(prompt: str) -> int:
    first, second = re.findall(r"\d+", prompt)[:2]
    return int(first) + int(second)


def right(path: str, body: dict[str, Any]) -> Reply:
    """A model that adds up; its seventh prompts it leaves empty."""
    total = sum_of(prompt_of(body))
    return answer("" if total % 7 == 0 else f"That is {total}.", output_tokens=4)


def wrong(path: str, body: dict[str, Any]) -> Reply:
    """A model that is off by one for every other prompt, and cuts what is long."""
    total = sum_of(prompt_of(body))
    text = f"It must be {total + total // 2 % 2}."
    return answer(text, finish_reason="length" if total > 60 else "stop", output_tokens=9)


def strict(path: str, body: dict[str, Any]) -> Reply:
    """A judge that gives 10 for the right sum and 2 for others, and prose where the sum ends in 5."""
    texts = prompt_of(body)
    asked = re.search(r"How much is (\d+) plus (\d+)", texts)
    given = re.search(r"(?:That is|It must be) (\d+)", texts)
    assert asked is not None, texts
    assert given is not None, texts
    total = int(asked[1]) + int(asked[2])
    if total % 10 == 5:
        return answer("I would say that is quite good.")
    score = 10 if int(given[1]) == total else 2
    return answer(json.dumps({"score": score, "reason": f"the sum is {total}"}))


@dataclass(frozen=True)
class Job:
    """A spec file and the servers that it names."""

    spec: Path
    folder: Path
    models: tuple[Scripted, Scripted]
    judge: Scripted

    @property
    def asked(self) -> int:
        """Requests that the models saw."""
        return sum(len(server.seen) for server in self.models)


@contextmanager
def job(folder: Path, *, models: tuple[Rule, Rule] = (right, wrong), judge: Rule = strict) -> Iterator[Job]:
    """Servers that live until the block ends, prompts and a spec in ``folder``."""
    rows = [
        {"question": question(at), "sum": f"the sum is {2 * at + 1}", "kind": "odd" if at % 2 else "even"}
        for at in range(N_PROMPTS)
    ]
    (folder / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with ExitStack() as servers:
        one, two = (servers.enter_context(scripted(rule)) for rule in models)
        three = servers.enter_context(scripted(judge, models=("strict",)))
        path = folder / "sums.yaml"
        path.write_text(yaml.safe_dump(spec(folder, one, two, three), sort_keys=False))
        yield Job(path, folder, (one, two), three)


def spec(folder: Path, one: Scripted, two: Scripted, judge: Scripted) -> dict[str, Any]:
    """The spec of the job."""
    columns = {"prompt": "question", "reference": "sum", "source": "kind"}
    quick = {"backoff_s": 0.01, "concurrency": 4, "deadline_s": 20.0}
    return {
        "name": "sums",
        "description": "Sums of two numbers.",
        "licence": "CC0-1.0",
        "source": {
            "kind": "label",
            "prompts": {
                "sources": [
                    {"kind": "table", "name": "sums", "path": str(folder / "sums.jsonl"), "columns": columns}
                ]
            },
            "models": [
                {"name": "right", "endpoint": {"url": one.url, "served_name": "scripted", **quick}},
                {"name": "wrong", "endpoint": {"url": two.url, "served_name": "scripted", **quick}},
            ],
            "judges": [
                {
                    "name": "strict",
                    "model": "a strict judge",
                    "endpoint": {"url": judge.url, "served_name": "strict", **quick},
                }
            ],
            "signals": [
                {"kind": "judge", "name": "judged", "judge": "strict"},
                {"kind": "numeric", "name": "numeric"},
                {"kind": "length", "name": "length"},
            ],
            "quality": "judged",
        },
    }
