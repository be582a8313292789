from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text
from typer.core import TyperGroup

from rbx import __version__
from rbx.cli.main import BESIDE, COMMANDS, Lazy, load_command, printable, run
from rbx.heads.routers.build import ROUTERS

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = [sys.executable, "-c", "from rbx.cli.main import main; main()"]


@pytest.fixture
def end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "end", Lazy("tests.cli.faulty_commands:end", "End in a given way."))


@pytest.mark.usefixtures("end")
@pytest.mark.parametrize(
    ("how", "code", "stderr"),
    [
        ("well", 0, ""),
        ("dataset-error", 1, "error: grid/labels.parquet: row 3, score: \\x1b[31m[bold]7 is not in [0, 1]\n"),
        ("usage-error", 2, "error: no policy named 'x'\n"),
        ("interrupt", 130, ""),
        ("disk-full", 1, "error: cells/a.parquet: No space left on device\n"),
        ("invalid-cells", 3, ""),
    ],
)
def test_each_ending_has_its_code_and_one_line(
    how: str, code: int, stderr: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["end", how]) == code
    output = capsys.readouterr()
    assert output.err == stderr
    assert output.out == ("done\n" if how == "well" else "")


@pytest.mark.usefixtures("end")
def test_a_bug_is_not_dressed_up_as_an_expected_error() -> None:
    with pytest.raises(ZeroDivisionError):
        run(["end", "bug"])


def test_an_unknown_command_is_a_usage_error_with_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["repotr"]) == 2
    assert "Did you mean 'report'?" in capsys.readouterr().err


@pytest.mark.usefixtures("end")
def test_an_unknown_option_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["end", "well", "--louder"]) == 2
    assert "--louder" in capsys.readouterr().err
    assert run(["end"]) == 2


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"rbx {__version__}\n"


def test_help_lists_every_command_without_importing_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    for name, lazy in COMMANDS.items():
        assert name in shown
        assert lazy.help.split()[0] in shown


@pytest.mark.usefixtures("end")
def test_help_of_a_command_shows_its_own_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["end", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--loud" in shown
    assert "An option of its own." in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_every_listed_command_exists_and_explains_itself(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([name, "--help"]) == 0
    assert f"rbx {name}" in capsys.readouterr().out


def every_command() -> Iterator[tuple[str, Any]]:
    for name, lazy in [*COMMANDS.items(), *BESIDE["train"].items()]:
        command = load_command(name, lazy)
        inner = command.commands if isinstance(command, TyperGroup) else {"": command}
        for below, each in inner.items():
            yield f"{name} {below}".strip(), each


def helps_of(command: Any) -> dict[str, str]:
    told = {parameter.name: getattr(parameter, "help", None) for parameter in command.params}
    return {name: text for name, text in told.items() if name and text}


def test_help_loses_no_words_to_the_markup_of_the_terminal() -> None:
    told = {
        f"{line} {name}": text
        for line, command in every_command()
        for name, text in helps_of(command).items()
    }
    assert {"sweep jobs", "dataset show metric", "step-time out"} <= told.keys()
    assert {of: Text.from_markup(text).plain for of, text in told.items()} == told


def test_help_of_train_names_every_router() -> None:
    told = helps_of(dict(every_command())["train"])["routers"]
    named = told.partition("otherwise: ")[2].partition(", or all")[0].split(", ")
    assert sorted(named) == sorted(ROUTERS)


def test_a_reader_that_leaves_early_hears_nothing() -> None:
    pool = ROOT / "experiments" / "pools" / "paper.yaml"
    writer = subprocess.Popen(
        [*SCRIPT, "pool", "show", str(pool), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert writer.stdout is not None
    assert writer.stderr is not None
    writer.stdout.close()
    assert writer.stderr.read() == b""
    writer.stderr.close()
    assert writer.wait(timeout=60) == 1


def test_printable_shows_control_characters_and_keeps_text() -> None:
    assert printable("a\x1b[0m\x07\x00 é 漢\n\tb\x9b") == "a\\x1b[0m\\x07\\x00 é 漢\n\tb\\x9b"


def test_the_script_is_wired_to_main() -> None:
    done = subprocess.run([*SCRIPT, "--version"], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == f"rbx {__version__}\n"
