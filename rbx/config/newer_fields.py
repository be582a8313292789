"""Models that gain fields after files with an identity of their own were made from them."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import SerializerFunctionWrapHandler, model_serializer

from rbx.config.base import StrictModel


class NewerFields(StrictModel):
    """``newer`` names fields that came after cells had been run.

    They are written down only where they depart from their defaults, so that the identity of a cell that
    knows nothing of them stays what it was.
    """

    newer: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="wrap")
    def _without_newer_defaults(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields = type(self).model_fields
        written: dict[str, Any] = write(self)
        return {
            name: value
            for name, value in written.items()
            if name not in self.newer
            or getattr(self, name) != fields[name].get_default(call_default_factory=True)
        }
