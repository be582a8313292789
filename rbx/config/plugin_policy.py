"""Policies other packages offer by name: entry points of the group ``rbx.policies`` (docs/cookbook.md)."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, JsonValue

from rbx.config.base import Name
from rbx.config.dispatch import DispatchConfig, DispatchList, dispatch_label
from rbx.config.filter import Filterable, FilteredSpec
from rbx.config.secrets import WithoutSecrets
from rbx.config.single_policy import Single

_PLAIN_WORD = re.compile(r"[A-Za-z0-9_.:/+-]{1,60}")


def _one_or_many(value: Any) -> Any:
    return [value] if isinstance(value, dict) else value


Options = Annotated[dict[str, JsonValue], WithoutSecrets]


class PluginPolicy(Filterable, Single):
    """One policy of another package with one mapping of options; ``dispatch`` where it picks models alone."""

    kind: Literal["plugin"] = "plugin"
    name: Name
    options: Options = Field(default_factory=dict)
    dispatch: DispatchConfig | None = None
    batched: bool = True

    @property
    def label(self) -> str:
        """``NAME option=value/dispatcher``, and ``unbatched`` where it is so."""
        words = [f"{_word(key)}={_word(value)}" for key, value in sorted(self.options.items())]
        dispatch = "" if self.dispatch is None else f"/{dispatch_label(self.dispatch)}"
        path = "" if self.batched else " unbatched"
        return " ".join([self.name, *words]) + dispatch + path + self.filter_words


class PluginSpec(FilteredSpec):
    """``plugin`` entries of an experiment; several mappings of ``options`` multiply, lists in them do not.

    What stands in ``options`` belongs to the plug-in, which alone knows what a list means there.
    """

    kind: Literal["plugin"]
    name: Name
    options: Annotated[tuple[Options, ...], BeforeValidator(_one_or_many), Field(min_length=1)] = ({},)
    dispatch: DispatchList | None = None
    batched: tuple[bool, ...] = Field((True,), min_length=1)

    def expand(self, models: tuple[str, ...]) -> Iterator[PluginPolicy]:
        """One policy a mapping of options, dispatcher and path."""
        dispatchers = self.dispatch or (None,)
        for rule, options, dispatch, batched in itertools.product(
            self.filter, self.options, dispatchers, self.batched
        ):
            yield PluginPolicy(
                name=self.name, options=options, dispatch=dispatch, batched=batched, filter=rule
            )


def plugin_spec(policy: PluginPolicy) -> dict[str, Any]:
    """The spec of this policy alone, as JSON."""
    data = policy.model_dump(mode="json", exclude={"filter"})
    dispatch = {} if policy.dispatch is None else {"dispatch": [data["dispatch"]]}
    return {**data, "batched": [policy.batched], "dispatch": None, **dispatch}


def _word(value: Any) -> str:
    """A key or value in a label: escaped unless it is a plain word or number, since terminals show labels."""
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) and _PLAIN_WORD.fullmatch(value) else json.dumps(value)
