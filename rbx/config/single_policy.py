"""What every single policy is: a configuration with no lists left, and a label."""

from __future__ import annotations

from rbx.config.base import StrictModel


class Single(StrictModel):
    """One policy with no lists left; ``label`` names it in tables and figures."""

    @property
    def label(self) -> str:
        """Short unique name."""
        raise NotImplementedError
