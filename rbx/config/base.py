"""What every typed input file has in common: strict models, and YAML with overrides and provenance.

Configuration precedence, lowest first: defaults, file, ``--set key=value``. The source of each
effective value is kept (``Loaded.sources``), so that a run can say where a number came from.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from rbx.errors import ConfigError

# Strict: a number is a number; neither "4" nor true is one.
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]
NonNegativeFloat = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]
UnitFloat = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False, strict=True)]
# Whole numbers end where numpy's and Parquet's smaller ones do.
_LARGEST = 2**31 - 1
PositiveInt = Annotated[int, Field(gt=0, le=_LARGEST, strict=True)]
NonNegativeInt = Annotated[int, Field(ge=0, le=_LARGEST, strict=True)]
# Shown in terminals: no control characters, which may steer them.
Text = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$")]
Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*$")]


class StrictModel(BaseModel):
    """A frozen model that refuses unknown keys, NaN and infinity."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


M = TypeVar("M", bound=StrictModel)


def chosen_by(key: str, models: Mapping[str, Any], default: str | None = None) -> BeforeValidator:
    """For a union of models told apart by ``key``: validate as the one that is named, or its like union.

    A fault is then told with the key as it stands in the file; a union tried member by member, or a
    tagged one, would put the member's name into it.
    """

    def choose(value: Any) -> Any:
        if isinstance(value, BaseModel):
            return value
        if not isinstance(value, dict):
            raise ValueError(f"must be a mapping with {key}: one of {', '.join(models)}")
        name = value.get(key, default)
        if name is None:
            raise ValueError(f"{key} is missing; it is one of {', '.join(models)}")
        if not isinstance(name, str) or name not in models:
            otherwise = f"; without one it is {default}" if default else ""
            raise ValueError(f"{key} {name!r} is none of {', '.join(models)}{otherwise}")
        return TypeAdapter(models[name]).validate_python(value)

    return BeforeValidator(choose)


@dataclass(frozen=True)
class Loaded(Generic[M]):
    """A validated file: the model, where it lies, and the source of each effective value.

    ``sources`` maps dotted keys to ``"default"``, ``"file"`` or ``"--set"``.
    """

    value: M
    path: Path
    sources: dict[str, str]


class _StrictLoader(yaml.SafeLoader):
    """YAML that refuses a key given twice, where plain PyYAML keeps the last one silently.

    An alias inside an anchored value is refused too: ten nested lines of them can stand for gigabytes.
    ``1e-4`` is a number, as in YAML 1.2.
    """

    _anchored = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """The next node, unless it is an alias within an anchored value."""
        reader: Any = self  # PyYAML leaves its reader untyped
        event: Any = reader.peek_event()
        if self.check_event(yaml.AliasEvent):
            if self._anchored:
                problem = "an alias inside an anchored value is not supported; write the value out"
                raise yaml.composer.ComposerError(None, None, problem, event.start_mark)
            anchored = 0
        else:
            anchored = int(getattr(event, "anchor", None) is not None)
        self._anchored += anchored
        node: yaml.Node | None = super().compose_node(parent, index)
        self._anchored -= anchored
        return node


def _mapping_without_duplicates(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if isinstance(key, (str, int, float)) and key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"key {key!r} is given twice", key_node.start_mark
            )
        if isinstance(key, (str, int, float)):
            seen.add(key)
    return loader.construct_mapping(node, deep=True)


_StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)
_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping_without_duplicates)


def parse_yaml(text: str, *, where: str) -> Any:
    """The value that ``text`` is, by the rules of files; raises ``ConfigError``."""
    try:
        return _value(text)
    # PyYAML lets a date such as 2026-13-01 escape as ValueError, and deep nesting as RecursionError.
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: not valid YAML: {error}") from None


def _value(text: str) -> Any:
    loader = _StrictLoader(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def read_yaml(path: Path) -> dict[str, Any]:
    """Read one YAML mapping; every failure is a ``ConfigError`` naming the file and line."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: can't be read: {error}") from None
    data = parse_yaml(text, where=str(path))
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: expected a mapping of keys at the top level")
    return data


def apply_overrides(data: dict[str, Any], overrides: list[str]) -> list[str]:
    """Set dotted keys in ``data`` from ``key=value`` strings (values are YAML); returns the keys set."""
    keys: list[str] = []
    for item in overrides:
        key, sign, raw = item.partition("=")
        if not sign or not key.strip():
            raise ConfigError(f"--set {item!r}: expected key=value, such as workload.seeds=[0,1]")
        value = parse_yaml(raw, where=f"--set {item!r}")
        _set_dotted(data, key.strip().split("."), value, item)
        keys.append(key.strip())
    return keys


def _set_dotted(data: dict[str, Any], parts: list[str], value: Any, item: str) -> None:
    node: Any = data
    for part in parts[:-1]:
        node = node[_list_index(node, part, item)] if isinstance(node, list) else node.setdefault(part, {})
        if not isinstance(node, (dict, list)):
            raise ConfigError(f"--set {item!r}: {part!r} is not a mapping or a list")
    if isinstance(node, list):
        node[_list_index(node, parts[-1], item)] = value
    else:
        node[parts[-1]] = value


def _list_index(node: list[Any], part: str, item: str) -> int:
    if not (part.isascii() and part.isdecimal() and len(part) < 9) or int(part) >= len(node):
        raise ConfigError(f"--set {item!r}: {part!r} is not an index of a list of {len(node)}")
    return int(part)


def load(model: type[M], path: Path, overrides: list[str] | None = None) -> Loaded[M]:
    """Read, override and validate one file as a whole; all faults are reported at once."""
    data = read_yaml(path)
    from_file = set(flatten(data))
    set_keys = apply_overrides(data, overrides or [])
    value = parse(model, data, where=str(path))
    sources = {key: _source_of(key, from_file, set_keys) for key in flatten(value.model_dump(mode="json"))}
    return Loaded(value=value, path=path, sources=sources)


def parse(model: type[M], data: dict[str, Any], *, where: str) -> M:
    """Validate a mapping; every fault is listed with its key."""
    _refuse_unwritable(data, where)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        faults = error.errors()
        # pydantic counts a list's valid items only: one faulty item makes it "too short" as well.
        inner = {fault["loc"][:-1][:depth] for fault in faults for depth in range(len(fault["loc"]))}
        lines = [
            f"  {_key(fault['loc'])}: {_plain(fault['msg'])}"
            for fault in faults
            if not (fault["type"] == "too_short" and fault["loc"] in inner)
        ]
        lines = list(dict.fromkeys(lines))
        raise ConfigError(f"{where}: {len(lines)} fault(s)\n" + "\n".join(lines)) from None


def _key(loc: tuple[int | str, ...]) -> str:
    """Where a fault lies, as a user writes it: without pydantic's names for the members of a union."""
    return ".".join(str(part) for part in loc if "[" not in str(part)) or "(top)"


def _refuse_unwritable(data: dict[str, Any], where: str) -> None:
    try:
        odd = sorted(key for key, value in flatten(data).items() if _odd(key) or _odd(value))
    except RecursionError:
        raise ConfigError(f"{where}: nested too deeply") from None
    if odd:
        raise ConfigError(
            f"{where}: {_shown(odd[0])}: holds a NUL character, or half of a surrogate pair, which no file "
            "and no request can carry"
        )


def _odd(value: Any) -> bool:
    return isinstance(value, str) and any(
        letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in value
    )


def _shown(key: str) -> str:
    return key.replace("\0", "\\0").encode("ascii", "backslashreplace").decode("ascii")


def _plain(message: str) -> str:
    """A fault in the words of a YAML file, which has lists and no tuples."""
    plain = message.removeprefix("Value error, ")
    return plain.replace("should be a valid tuple", "should be a list, in brackets even for one value")


def _source_of(key: str, from_file: set[str], set_keys: list[str]) -> str:
    if any(key == item or key.startswith(item + ".") for item in set_keys):
        return "--set"
    return "file" if any(key == item or item.startswith(key + ".") for item in from_file) else "default"


def flatten(data: Any, prefix: str = "") -> dict[str, Any]:
    """Dotted keys of a nested mapping; lists are indexed, empty containers are leaves."""
    if isinstance(data, dict) and data:
        items = [(str(key), value) for key, value in data.items()]
    elif isinstance(data, list) and data:
        items = [(str(index), value) for index, value in enumerate(data)]
    else:
        return {prefix: data}
    flat: dict[str, Any] = {}
    for key, value in items:
        flat.update(flatten(value, f"{prefix}.{key}" if prefix else key))
    return flat


def digest(data: Any) -> str:
    """SHA-256 of the canonical JSON of ``data``: the identity of a configuration."""
    canonical = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()
