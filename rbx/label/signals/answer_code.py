"""The Python source in a chat model's answer."""

from __future__ import annotations

import re
import textwrap
from typing import NamedTuple

_INFO_END = re.compile(r"[\s{},:]")
_PYTHON = frozenset({"python", "python3", "py", "py3"})


def python_source(text: str) -> str:
    """The first fenced block said to be Python, else the first fenced block, else the whole text.

    A fence that is never closed, as in an answer cut off, holds the rest.
    """
    blocks = _blocks(text.replace("\r\n", "\n"))
    chosen = next((body for info, body in blocks if info in _PYTHON), None)
    if chosen is None:
        chosen = blocks[0][1] if blocks else text
    return textwrap.dedent(chosen)


class _Fence(NamedTuple):
    mark: str
    info: str


def _fence(line: str) -> _Fence | None:
    """The line as one that opens or closes a block, in time linear in its length."""
    bare = line.lstrip(" \t>")
    kind = bare[:1]
    info = bare.lstrip(kind) if kind in ("`", "~") else bare
    width = len(bare) - len(info)
    return _Fence(bare[:width], info.strip()) if width >= 3 and "`" not in info else None


def _blocks(text: str) -> list[tuple[str, str]]:
    blocks: list[tuple[str, str]] = []
    mark, info = "", ""
    body: list[str] = []
    for line in text.split("\n"):
        fence = _fence(line)
        if not mark:
            if fence:
                mark, body = fence.mark, []
                info = _INFO_END.split(fence.info.lower(), maxsplit=1)[0]
        elif fence and fence.mark.startswith(mark) and not fence.info:
            blocks.append((info, "\n".join(body)))
            mark = ""
        else:
            body.append(line)
    if mark:
        blocks.append((info, "\n".join(body)))
    return blocks
