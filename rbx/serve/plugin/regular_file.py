"""Opening what a folder holds under the name of a published file, whatever it turns out to be."""

from __future__ import annotations

import errno
import os
import stat
from io import FileIO
from pathlib import Path


def open_regular(path: Path) -> FileIO:
    """The regular file ``path`` for reading, without ever waiting for somebody at its other end.

    Raises ``OSError`` where it can't be opened or is a pipe, a socket, a device or a folder.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return FileIO(descriptor, "r")
    os.close(descriptor)
    raise OSError(errno.EINVAL, "no regular file", str(path))
