"""Every exception that rbx raises on purpose.

::

    RbxError                 base; a command that meets one prints it and exits with 1
    ├── UsageError           the command line asks for something that does not exist (exit 2)
    ├── ConfigError          a pool, experiment or dataset spec does not hold
    ├── DatasetError         a grid is missing, malformed or inconsistent
    ├── BundleError          a bundle of heads is missing, malformed or does not fit its grid
    ├── EngineError          an engine was given a request or a limit it can't honour
    ├── ServerError          a live server does not answer as one that rbx can use
    ├── LoadError            the load client ended before its schedule did
    ├── StoreError           a results directory can't be read, written or resumed
    ├── StatisticsError      an interval or a comparison is not estimable
    └── MissingExtraError    an optional dependency is not installed

Each message says what is wrong, where (file, row, key or cell), and what to do about it.
"""

from __future__ import annotations


class RbxError(Exception):
    """Base of all errors raised on purpose; its text is meant for the user."""

    exit_code = 1


class UsageError(RbxError):
    """The command line names something that does not exist or does not fit."""

    exit_code = 2


class ConfigError(RbxError):
    """A pool, experiment or dataset specification does not hold."""


class DatasetError(RbxError):
    """A grid is missing, malformed or inconsistent."""


class BundleError(RbxError):
    """A bundle of heads is missing, malformed or does not fit its grid, encoder or pool."""


class EngineError(RbxError):
    """An engine was given a request or a limit that it can't honour."""


class ServerError(RbxError):
    """A live server does not answer, or not as one that rbx can use."""


class LoadError(RbxError):
    """The load client ended before its schedule did."""


class StoreError(RbxError):
    """A results directory can't be read, written or resumed."""


class StatisticsError(RbxError):
    """An interval or a comparison is not estimable from the data given."""


class MissingExtraError(RbxError):
    """An optional dependency is not installed; the message holds the install line."""
