"""Files that are wrong on purpose end in one clear error, in no time."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbx.config.base import StrictModel, load, read_yaml
from rbx.errors import ConfigError


class Model(StrictModel):
    x: float = 0.0


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "file.yaml"
    path.write_text(text)
    return path


def test_an_alias_is_read_but_a_bomb_of_them_is_refused(tmp_path: Path) -> None:
    assert read_yaml(written(tmp_path, "a: &k {b: 1}\nc: *k\n")) == {"a": {"b": 1}, "c": {"b": 1}}
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    with pytest.raises(ConfigError, match="alias"):
        read_yaml(written(tmp_path, "\n".join(lines)))


def test_deep_nesting_is_an_error_not_a_traceback(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"file\.yaml"):
        read_yaml(written(tmp_path, "x: " + "[" * 3000 + "]" * 3000))


@pytest.mark.parametrize(("text", "value"), [("1e-4", 1e-4), ("2E3", 2000.0), ("-1.5e+2", -150.0)])
def test_numbers_with_an_exponent_are_numbers(tmp_path: Path, text: str, value: float) -> None:
    assert load(Model, written(tmp_path, f"x: {text}")).value.x == value


@pytest.mark.parametrize("index", ["²", "9" * 5000, "-1", ""])
def test_an_odd_list_index_is_refused(tmp_path: Path, index: str) -> None:
    with pytest.raises(ConfigError, match="index of a list"):
        load(Model, written(tmp_path, "xs: [1, 2]"), [f"xs.{index}=3"])
