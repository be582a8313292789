"""A running vLLM Semantic Router as a policy asks it: where it answers, and whose model each category is."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from rbx.config.base import PositiveFloat, StrictModel, Text
from rbx.config.endpoint import Address, EnvironmentName


class ClassifierService(StrictModel):
    """``url`` is the base of its HTTP API (port 8080 of the router, such as ``http://127.0.0.1:8080``).

    ``models`` names the model of each category; null has it learnt from the train split, in simulated sweeps.
    ``default_model`` answers for categories without one; null is the best single model in training.
    ``timeout_s`` is granted for each prompt of a call.
    """

    url: Address
    models: Annotated[dict[Text, Text], Field(min_length=1)] | None = None
    default_model: Text | None = None
    timeout_s: PositiveFloat = 2.0
    api_key_env: EnvironmentName | None = None

    def check(self, models: tuple[str, ...]) -> None:
        """Raise ``ValueError`` for a model that the pool does not have."""
        named = {*(self.models or {}).values(), *((self.default_model,) if self.default_model else ())}
        absent = sorted(named - set(models))
        if absent:
            raise ValueError(f"vllm-sr: the pool has no {', '.join(absent)}; it has {', '.join(models)}")
