"""Where a predicted time to first token may come from."""

from __future__ import annotations

from typing import Literal

TtftSource = Literal["bea", "prefill-throughput", "lps", "lps-engine"]
