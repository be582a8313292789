"""The seven families, in a fixed order."""

from __future__ import annotations

from rbx.grid.synth.code import CODE
from rbx.grid.synth.family import Family
from rbx.grid.synth.maths import MATHS
from rbx.grid.synth.safety import SAFETY
from rbx.grid.synth.talk import CHAT, INSTRUCTION, PREFERENCE, READING

FAMILIES: tuple[Family, ...] = (INSTRUCTION, CODE, SAFETY, CHAT, MATHS, READING, PREFERENCE)
N_TOPICS = 12
