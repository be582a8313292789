"""How many files and connections this process may have open, and what is said where that is too few."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator

from rbx.errors import ConfigError

RESERVE = 64  # files, pipes and libraries beside the connections
_NO_MORE = frozenset({errno.EMFILE, errno.ENFILE})


def allow_open_files(wanted: int, who: str) -> None:
    """Raise this process's soft limit so that ``wanted`` connections fit, as far as the hard one lets it.

    ``who`` opens them. Raises ``ConfigError`` where the hard limit is too low.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + RESERVE
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    try:
        if hard != resource.RLIM_INFINITY and hard < needed:
            raise ValueError("above the hard limit")
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    except (ValueError, OSError):  # macOS has a lower limit of its own
        most = soft if hard == resource.RLIM_INFINITY else max(soft, hard)
        raise ConfigError(
            f"{who}: concurrency {wanted:,} needs {needed:,} open files, and this system lets a process have "
            f"{most:,} (ulimit -Hn); lower concurrency to at most {max(1, most - RESERVE):,}, or raise it"
        ) from None


def refuse_exhaustion(error: BaseException, where: str) -> None:
    """Raise ``ConfigError`` if ``error`` came of this machine's limit on open files, nobody else's fault."""
    if any(getattr(each, "errno", None) in _NO_MORE for each in _chain(error)) or _exhausted():
        raise ConfigError(
            f"{where}: no further connection can be opened, since this process or machine has too many open "
            "files; lower concurrency or raise the limit (ulimit -n), and run the same command again: what "
            "was done is kept"
        ) from None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _exhausted() -> bool:
    # A name that could not be looked up for want of a socket does not say so.
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno in _NO_MORE
    return False
