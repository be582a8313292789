"""What the seven public sources have in common: where a data set lies and how one of its rows is read."""

from __future__ import annotations

from dataclasses import dataclass

from rbx.config.labelling import PublicKind
from rbx.label.prompts import (
    beaver_tails,
    code_ultra_feedback,
    gsm8k,
    lmsys,
    mix_instruct,
    reward_bench,
    squad,
)
from rbx.label.prompts.draft import Reader


@dataclass(frozen=True)
class PublicDataset:
    """One data set of the hub.

    ``patterns`` name its files from the repository's root; the first that names any is taken. ``columns``
    are all that ``read`` looks at. ``licence`` is what the hub's card states.
    """

    hub: str
    licence: str
    patterns: tuple[str, ...]
    columns: tuple[str, ...]
    read: Reader
    gated: bool = False


PUBLIC: dict[PublicKind, PublicDataset] = {
    "reward_bench": PublicDataset(
        hub="allenai/reward-bench",
        licence="ODC-BY",
        patterns=("data/filtered-*.parquet",),
        columns=("id", "subset", "prompt", "chosen"),
        read=reward_bench.read,
    ),
    "code_ultra_feedback": PublicDataset(
        hub="coseal/CodeUltraFeedback",
        licence="MIT",
        patterns=("data/train-*.parquet",),
        columns=("instruction", "responses", "annotations"),
        read=code_ultra_feedback.read,
    ),
    "beaver_tails": PublicDataset(
        hub="PKU-Alignment/BeaverTails",
        licence="CC-BY-NC-4.0",
        patterns=("round0/30k/train.jsonl.gz",),
        columns=("prompt", "category"),
        read=beaver_tails.read,
    ),
    "mix_instruct": PublicDataset(
        hub="llm-blender/mix-instruct",
        licence="MIT",
        patterns=("train_data_prepared.jsonl",),
        columns=("id", "instruction", "input", "output"),
        read=mix_instruct.read,
    ),
    "lmsys": PublicDataset(
        hub="lmsys/lmsys-chat-1m",
        licence="LMSYS-Chat-1M Dataset License Agreement",
        patterns=("data/train-*.parquet",),
        columns=("conversation_id", "language", "conversation"),
        read=lmsys.read,
        gated=True,
    ),
    "gsm8k": PublicDataset(
        hub="openai/gsm8k",
        licence="MIT",
        # The second and third are the layout of the authors' own release.
        patterns=("main/train-*.parquet", "train.jsonl", "train.jsonl.gz"),
        columns=("question", "answer"),
        read=gsm8k.read,
    ),
    "squad": PublicDataset(
        hub="rajpurkar/squad",
        licence="CC-BY-SA-4.0",
        patterns=("plain_text/train-*.parquet",),
        columns=("context", "question", "answers"),
        read=squad.read,
    ),
}
