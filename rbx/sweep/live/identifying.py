"""What of an experiment's ``live`` can change a cell's records, for the identity of its cells."""

from __future__ import annotations

import hashlib
from typing import Any

from rbx.config.live import LaunchTarget, Live
from rbx.errors import ConfigError

# How answers are kept, in which order cells run and what makes one count leave the records as they are.
_NOT_OF_A_CELL = {"keep_text", "order", "most_schedule_delay_p99_s", "most_rate_error"}


def live_identity(live: Live) -> dict[str, Any]:
    """``live`` without what changes no record, and with the content of the files that it names.

    Raises ``ConfigError`` for a file that can't be read.
    """
    identity = live.model_dump(mode="json", exclude=_NOT_OF_A_CELL)
    if isinstance(live.target, LaunchTarget):
        try:
            content = live.target.file.read_bytes()
        except OSError as error:
            raise ConfigError(f"{live.target.file}: can't be read: {error.strerror}") from None
        identity["launch_sha256"] = hashlib.sha256(content).hexdigest()
    return identity
