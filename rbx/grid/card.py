"""``README.md`` of a grid: a dataset card with the header that the Hugging Face hub reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

from rbx.grid.census import Census
from rbx.grid.licence import hub_licence
from rbx.grid.limits import known_limits
from rbx.grid.manifest import TABLES, Manifest
from rbx.grid.markdown import bullets, escaped, table

SHOWN_SOURCES = 20
SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
# Told in sections of their own.
TOLD = ("answers", "generation", "judges", "scores", "signals")


@dataclass(frozen=True)
class Layout:
    """The files beside a card: ``configs`` and ``features`` for its header, ``text`` for its reader.

    ``rows`` is the number of rows of the first config; None: a row per response.
    """

    configs: list[dict[str, Any]]
    text: str
    features: list[dict[str, str]] | None = None
    rows: int | None = None


GRID_LAYOUT = Layout(
    configs=[{"config_name": name.removesuffix(".parquet"), "data_files": name} for name in TABLES],
    text=(
        "`prompts.parquet` has a row per prompt, `responses.parquet` per prompt and model, `labels.parquet`\n"
        "per prompt, model and metric; `manifest.json` holds their digests and where each value came from.\n"
        "Check them with `rbx dataset check`, describe them with `rbx dataset show`.\n"
    ),
)


def dataset_card(manifest: Manifest, census: Census, layout: Layout = GRID_LAYOUT) -> str:
    """Markdown with a YAML header; ends with a newline. All but the description is escaped."""
    title = f"{manifest.name} (synthetic)" if manifest.synthetic else manifest.name
    sections = [
        f"---\n{_header(manifest, layout)}---\n\n# {escaped(title)}\n",
        _summary(manifest),
        _prompts(manifest, census),
        _models(manifest, census),
        _metrics(manifest, census),
        _limits(manifest, census),
        _judges(manifest),
        _provenance(manifest),
        f"## Files\n\n{layout.text}",
    ]
    return "\n".join(section for section in sections if section)


def _header(manifest: Manifest, layout: Layout) -> str:
    rows = manifest.counts.responses if layout.rows is None else layout.rows
    data: dict[str, Any] = {
        **hub_licence(manifest.licence),
        "pretty_name": manifest.name,
        "task_categories": ["text-generation"],
        "size_categories": [next((name for most, name in SIZES if rows < most), "1M<n<10M")],
        "tags": ["llm-routing", *(["synthetic"] if manifest.synthetic else [])],
        "configs": layout.configs,
    }
    if layout.features is not None:
        data["dataset_info"] = {"config_name": "default", "features": layout.features}
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)


def _summary(manifest: Manifest) -> str:
    counts = manifest.counts
    made_up = (
        "**This grid is synthetic.** No model answered these prompts: scores and lengths are drawn from a\n"
        "documented random model, and there are no response texts.\n\n"
        if manifest.synthetic
        else ""
    )
    share = counts.labels_present / counts.labels if counts.labels else 0.0
    return (
        f"{manifest.description.strip()}\n\n{made_up}"
        f"- prompts: {counts.prompts:,} ({counts.train:,} train, {counts.test:,} test)\n"
        f"- models: {escaped(', '.join(manifest.models))}\n"
        f"- metrics: {escaped(manifest.metrics_told)}\n"
        f"- labels: {counts.labels_present:,} of {counts.labels:,} present ({share:.1%})\n"
        f"{_duplicates(manifest)}"
        f"- input tokens: {escaped(manifest.input_tokens_origin)}\n"
        f"- licence: {escaped(manifest.licence)}\n"
        f"- digest: `{manifest.digest}`\n\n"
        "A missing score is null with a status; zero is a score.\n"
    )


def _duplicates(manifest: Manifest) -> str:
    counts = manifest.counts
    if not counts.duplicate_prompts:
        return ""
    return (
        f"- duplicates: {counts.duplicate_prompts:,} prompts of equal text dropped, "
        f"{counts.disagreeing_duplicates:,} of them scored otherwise\n"
    )


def _prompts(manifest: Manifest, census: Census) -> str:
    licences = _by_source(manifest, "licence")
    rows = [
        [
            escaped(each.source),
            f"{each.train:,}",
            f"{each.test:,}",
            f"{each.harmful:,}",
            *([escaped(licences.get(each.source, "unstated"))] if licences else []),
        ]
        for each in census.sources[:SHOWN_SOURCES]
    ]
    headings = ["source", "train", "test", "harmful", *(["licence"] if licences else [])]
    more = len(census.sources) - SHOWN_SOURCES
    rest = f"\nand {more:,} sources more\n" if more > 0 else ""
    return f"## Prompts\n\n{table(headings, rows)}{rest}"


def _by_source(manifest: Manifest, key: str) -> dict[str, str]:
    """One fact by the name of a source, from ``provenance.prompts``."""
    prompts = manifest.provenance.get("prompts")
    named = prompts.items() if isinstance(prompts, dict) else ()
    return {name: str(each[key]) for name, each in named if isinstance(each, dict) and each.get(key)}


def _models(manifest: Manifest, census: Census) -> str:
    rows = [
        [
            escaped(each.model),
            *(f"{count:,}" for count in (each.ok, each.empty, each.error, each.missing, each.truncated)),
            *(f"{count:,}" for count in (each.usage, each.recounted, each.unstated)),
            ", ".join(f"`{digest[:12]}`" for digest in each.generations if digest) or "none",
        ]
        for each in census.answers
    ]
    headings = ["model", "ok", "empty", "error", "missing", "cut at the limit"]
    headings += ["lengths by the server", "recounted", "unstated", "generation"]
    settings = manifest.provenance.get("generation")
    asked = f"\nAll models were asked with\n\n{''.join(bullets(settings))}" if settings else ""
    return f"## Models\n\n{table(headings, rows)}{asked}"


def _metrics(manifest: Manifest, census: Census) -> str:
    failed = {
        name: sum(each.judge_failed for each in census.labels if each.metric == name)
        for name in manifest.metrics
    }
    rows = [
        [
            escaped(each.metric),
            f"{each.judged - failed[each.metric]:,}",
            f"{failed[each.metric]:,}",
            f"{each.values:,}",
            ", ".join(f"`{digest[:12]}`" for digest in each.judges if digest) or "none",
        ]
        for each in census.metrics
    ]
    headings = ["metric", "labels", "judge failed", "distinct scores", "judge"]
    return f"## Metrics\n\n{table(headings, rows)}"


def _judges(manifest: Manifest) -> str:
    """Settings, criteria and steps of each judge, from ``provenance.judges``."""
    judges = manifest.provenance.get("judges", {})
    told = (f"{escaped(name)}:\n\n{''.join(bullets(each))}" for name, each in judges.items())
    return "## Judges\n\n" + "\n".join(told) if judges else ""


def _provenance(manifest: Manifest) -> str:
    rest = {key: value for key, value in manifest.provenance.items() if key not in TOLD}
    return f"## Where it comes from\n\n{''.join(bullets(rest))}" if rest else ""


def _limits(manifest: Manifest, census: Census) -> str:
    lines = "".join(f"- {escaped(each)}\n" for each in known_limits(manifest, census))
    return f"## Known limits\n\n{lines}" if lines else ""
