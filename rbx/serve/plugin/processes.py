"""Whether the process that wrote a file still runs."""

from __future__ import annotations

import os
from pathlib import Path

_START_TIME = 19  # of the fields of /proc/PID/stat that follow the name


def process_started(pid: int) -> int:
    """Clock ticks from boot to the start of a process; 0 where the system does not tell."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return int(text.rpartition(")")[2].split()[_START_TIME])


def runs(pid: int, started: int) -> bool:
    """Whether process ``pid`` runs and is the one that started then (0: not known).

    False for numbers that no process can have.
    """
    if pid < 1:  # os.kill would take it for a group of processes
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return started == 0 or process_started(pid) == started
