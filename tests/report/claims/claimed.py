"""Claims about made-up sweeps: files written, judged, and put on a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rbx.config.base import parse
from rbx.config.claims import ClaimsFile
from rbx.report.claims.study import ClaimsStudy, Judged, study_claims
from rbx.report.paired import Resampling

QUICK = Resampling(n_resamples=300)
UNIFORM, QUALITY = "rb q0.33 l0.33 c0.33", "rb q0.80 l0.10 c0.10"
ROUND_ROBIN, QUEUE, RANDOM = (f"passthrough/{each}" for each in ("round-robin", "shortest-queue", "random"))


def at(policy: str, rate_per_s: float | None = 6.0, sweep: str = "s", **keys: Any) -> dict[str, Any]:
    """A point of a claim."""
    rate = {} if rate_per_s is None else {"rate_per_s": rate_per_s}
    return {"sweep": sweep, "policy": policy, **rate, **keys}


def best(policies: str | list[str], rate_per_s: float | None = 6.0, **keys: Any) -> dict[str, Any]:
    """The best of several points of sweep ``s``."""
    rate = {} if rate_per_s is None else {"rate_per_s": rate_per_s}
    return {"best": {"sweep": "s", "policies": policies, **rate, **keys}}


def file_of(claims: list[dict[str, Any]], sweeps: dict[str, Path], **keys: Any) -> ClaimsFile:
    """A claims file; ids and words are filled in."""
    filled = [
        {"id": f"c{number}", "where": "Table 1, 6 req/s", "says": "so", **claim}
        for number, claim in enumerate(claims)
    ]
    content = {"name": "made-up", "source": "nobody", "sweeps": sweeps, "claims": filled, **keys}
    return parse(ClaimsFile, content, where="claims.yaml")


def judged(claims: list[dict[str, Any]], **sweeps: Path) -> list[Judged]:
    """What became of the claims."""
    return list(study(claims, **sweeps).judged)


def study(claims: list[dict[str, Any]], **sweeps: Path) -> ClaimsStudy:
    """The whole study."""
    return study_claims(file_of(claims, dict(sweeps)), Path("claims.yaml"), QUICK)
