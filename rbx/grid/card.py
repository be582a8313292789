"""``README.md`` of a grid: a dataset card with the header that the Hugging Face hub reads."""

from __future__ import annotations

import yaml

from rbx.grid.manifest import Manifest


def dataset_card(manifest: Manifest) -> str:
    """Markdown with a YAML header; ends with a newline."""
    title = f"{manifest.name} (synthetic)" if manifest.synthetic else manifest.name
    return f"---\n{_header(manifest)}---\n\n# {title}\n\n{_body(manifest)}"


def _header(manifest: Manifest) -> str:
    tables = ("prompts", "responses", "labels")
    data = {
        "license": manifest.licence.lower(),
        "pretty_name": manifest.name,
        "tags": ["llm-routing", *(["synthetic"] if manifest.synthetic else [])],
        "configs": [{"config_name": each, "data_files": f"{each}.parquet"} for each in tables],
    }
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)


def _body(manifest: Manifest) -> str:
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
        f"- models: {', '.join(manifest.models)}\n"
        f"- metrics: {', '.join(manifest.metrics)}; {manifest.quality} stands for quality\n"
        f"- labels: {counts.labels_present:,} of {counts.labels:,} present ({share:.1%})\n"
        f"{_duplicates(manifest)}"
        f"- input tokens: {manifest.input_tokens_origin}\n"
        f"- licence: {manifest.licence}\n"
        f"- digest: `{manifest.digest}`\n\n"
        "A missing score is null with a status; zero is a score. Files: `prompts.parquet`,\n"
        "`responses.parquet`, `labels.parquet`; `manifest.json` holds their digests and where each value\n"
        "came from. Check them with `rbx dataset check`, describe them with `rbx dataset show`.\n"
    )


def _duplicates(manifest: Manifest) -> str:
    counts = manifest.counts
    if not counts.duplicate_prompts:
        return ""
    return (
        f"- duplicates: {counts.duplicate_prompts:,} prompts of equal text dropped, "
        f"{counts.disagreeing_duplicates:,} of them scored otherwise\n"
    )
