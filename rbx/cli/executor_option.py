"""What ``--executor`` may name."""

from __future__ import annotations


def ray_address(executor: str) -> str | None:
    """The Ray cluster that ``executor`` names; None for this machine's processes.

    Raises ``UsageError`` for what names neither.
    """
    from rbx.config.ray_address import checked_ray_address
    from rbx.errors import UsageError

    if executor == "processes":
        return None
    if executor == "ray":
        return "auto"
    named = executor.removeprefix("ray://")
    try:
        if named == executor:
            raise ValueError
        return named if named in ("auto", "local") else checked_ray_address(executor)
    except ValueError:
        raise UsageError(
            f"--executor {executor!r}: it is processes, ray, ray://HOST:PORT or ray://local"
        ) from None
