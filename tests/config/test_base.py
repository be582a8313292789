from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbx.config.base import (
    NonNegativeFloat,
    PositiveFloat,
    StrictModel,
    apply_overrides,
    digest,
    flatten,
    load,
    parse,
    read_yaml,
)
from rbx.errors import ConfigError


class Engine(StrictModel):
    speed: PositiveFloat = 1.0
    idle_s: NonNegativeFloat = 0.0


class Car(StrictModel):
    name: str
    engine: Engine = Engine()
    wheels: tuple[int, ...] = (1, 2)


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "car.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: a\nname: b\n", "line 2"),
        ("name: a\nengine:\n  speed: 1\n  speed: 2\n", "'speed' is given twice"),
        ("name: [", "not valid YAML"),
        ("name: 2026-13-01\n", "not valid YAML"),
        ("- name\n", "expected a mapping"),
        ("", "expected a mapping"),
        ("name: !!python/object/apply:os.getcwd []\n", "not valid YAML"),
    ],
)
def test_yaml_that_can_mislead_is_refused_with_its_file(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        read_yaml(path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


def test_missing_and_unreadable_files_are_config_errors(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        read_yaml(tmp_path / "absent.yaml")
    with pytest.raises(ConfigError, match="can't be read"):
        read_yaml(tmp_path)
    path = tmp_path / "latin.yaml"
    path.write_bytes(b"name: caf\xe9\n")
    with pytest.raises(ConfigError, match="can't be read"):
        read_yaml(path)


@pytest.mark.parametrize("value", [".nan", ".inf", "-.inf", "0", "-1", "fast"])
def test_numbers_that_are_no_speed_are_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigError, match=r"engine\.speed"):
        load(Car, written(tmp_path, f"name: a\nengine: {{speed: {value}}}\n"))


def test_all_faults_are_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(Car, written(tmp_path, "engine: {speed: -1, sped: 3}\nwheels: [x]\n"))
    message = str(caught.value)
    assert "4 fault(s)" in message
    for key in ("name:", "engine.speed:", "engine.sped:", "wheels.0:"):
        assert key in message


def test_sources_tell_default_from_file_from_override(tmp_path: Path) -> None:
    path = written(tmp_path, "name: a\nengine: {speed: 3}\nwheels: [7, 8]\n")
    loaded = load(Car, path, ["engine.idle_s=2.5", "wheels.1=9"])
    assert loaded.value == Car(name="a", engine=Engine(speed=3, idle_s=2.5), wheels=(7, 9))
    assert loaded.sources == {
        "name": "file",
        "engine.speed": "file",
        "engine.idle_s": "--set",
        "wheels.0": "file",
        "wheels.1": "--set",
    }
    assert set(load(Car, written(tmp_path, "name: a\n")).sources.values()) == {"file", "default"}


def test_an_overridden_whole_section_counts_as_set(tmp_path: Path) -> None:
    loaded = load(Car, written(tmp_path, "name: a\nengine: {speed: 3}\n"), ["engine={speed: 4}"])
    assert loaded.value.engine.speed == 4
    assert loaded.sources["engine.speed"] == "--set"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("wheels", "expected key=value"),
        ("=3", "expected key=value"),
        ("name=[", "not valid YAML"),
        ("name=2026-13-01", "not valid YAML"),
        ("wheels.9=1", "not an index"),
        ("wheels.first=1", "not an index"),
        ("name.x=1", "not a mapping"),
        ("wheels.0.x=1", "not a mapping"),
    ],
)
def test_overrides_that_do_not_fit_are_refused(tmp_path: Path, override: str, message: str) -> None:
    path = written(tmp_path, "name: a\nwheels: [1, 2]\n")
    with pytest.raises(ConfigError) as caught:
        load(Car, path, [override])
    assert override in str(caught.value)
    assert message in str(caught.value)


def test_an_override_of_an_unknown_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"engine\.sped"):
        load(Car, written(tmp_path, "name: a\n"), ["engine.sped=1"])


def test_override_values_are_yaml() -> None:
    data: dict[str, object] = {}
    assert apply_overrides(data, ["a.b=[0, 1]", "c=null", "d=x=y"]) == ["a.b", "c", "d"]
    assert data == {"a": {"b": [0, 1]}, "c": None, "d": "x=y"}


documents = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), documents, min_size=1, max_size=4))
def test_digest_ignores_the_order_of_keys_and_nothing_else(data: dict[str, object]) -> None:
    assert digest(data) == digest(dict(reversed(list(data.items()))))
    assert digest(data) == digest(json.loads(json.dumps(data)))
    assert digest(data) != digest({**data, "added": 1})


@given(documents)
def test_flatten_keeps_every_leaf(data: object) -> None:
    def leaves(node: object) -> int:
        if isinstance(node, dict) and node:
            return sum(map(leaves, node.values()))
        if isinstance(node, list) and node:
            return sum(map(leaves, node))
        return 1

    assert len(flatten(data)) == leaves(data)


class Weighed(StrictModel):
    weights: tuple[tuple[PositiveFloat, PositiveFloat], ...] | str


def test_a_fault_names_the_users_key_and_no_type_of_ours() -> None:
    with pytest.raises(ConfigError) as caught:
        parse(Weighed, {"weights": [0.5, 0.5]}, where="mine.yaml")
    lines = str(caught.value).splitlines()
    assert lines[1].startswith("  weights.0: Input should be a list")
    assert "[" not in str(caught.value)
