"""GPUs as pools name them, and the accelerator types under which a Ray cluster offers them."""

from __future__ import annotations

import re

from rbx.errors import ConfigError

# Ray names NVIDIA's cards by their model alone, whatever their memory; the others as listed.
_NVIDIA = (
    "K80 P4 P100 T4 V100 A2 A10 A10G A16 A30 A40 A100 A800 L4 L40 L40S H20 H100 H200 H800 "
    "B100 B200 B300 GB200 GB300"
)
ACCELERATORS = {
    **{name: name for name in _NVIDIA.split()},
    "GH200": "GH200",
    "MI210": "AMD-Instinct-MI210",
    "MI250": "AMD-Instinct-MI250X-MI250",
    "MI250X": "AMD-Instinct-MI250X",
    "MI300A": "AMD-Instinct-MI300A",
    "MI300X": "AMD-Instinct-MI300X-OAM",
    "MI308X": "AMD-Instinct-MI308X",
    "MI325X": "AMD-Instinct-MI325X-OAM",
    "MI350X": "AMD-Instinct-MI350X-OAM",
    "MI355X": "AMD-Instinct-MI355X-OAM",
}
ANY = "any"


def accelerator_type(gpu: str, tier: str) -> str:
    """Ray's name of a pool's ``gpu``: of its words, such as those of ``A100-SXM4-40GB``, the first in
    ``ACCELERATORS``. Raises ``ConfigError`` where there is none."""
    for word in re.split(r"[^A-Z0-9]+", gpu.upper()):
        if word in ACCELERATORS:
            return ACCELERATORS[word]
    raise ConfigError(
        f"tier {tier}: no accelerator type of Ray is known for gpu {gpu!r}; name it by "
        f"launcher.tiers.{tier}.accelerator (what `ray status` shows after accelerator_type:), or {ANY!r} "
        "for whatever has enough GPUs"
    )
