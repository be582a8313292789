"""What every single policy is: a configuration with no lists left, and a label."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from pydantic import SerializerFunctionWrapHandler, model_serializer

from rbx.config.base import StrictModel


class Single(StrictModel):
    """One policy with no lists left; ``label`` names it in tables and figures.

    ``newer`` names fields that came after cells had been run: written down only where they depart from
    their defaults, so that the identity of a cell that knows nothing of them stays what it was.
    """

    newer: ClassVar[frozenset[str]] = frozenset()

    @property
    @abstractmethod
    def label(self) -> str:
        """Short unique name."""

    @model_serializer(mode="wrap")
    def _without_newer_defaults(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields = type(self).model_fields
        written: dict[str, Any] = write(self)
        return {
            name: value
            for name, value in written.items()
            if name not in self.newer or getattr(self, name) != fields[name].default
        }
