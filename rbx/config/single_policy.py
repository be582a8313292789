"""What every single policy is: a configuration with no lists left, and a label."""

from __future__ import annotations

from abc import abstractmethod

from rbx.config.newer_fields import NewerFields


class Single(NewerFields):
    """One policy with no lists left; ``label`` names it in tables and figures."""

    @property
    @abstractmethod
    def label(self) -> str:
        """Short unique name."""
