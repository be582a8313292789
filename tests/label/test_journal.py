"""Rows outlive the death of their writer, a full disk and a second process."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.errors import DatasetError
from rbx.label.journal import Journal

WRITER = """
import sys
from pathlib import Path
from rbx.label.journal import Journal

with Journal(Path(sys.argv[1])) as journal:
    first = sum(1 for _ in journal.entries())
    for number in range(first, 10_000_000):
        journal.append({"number": number, "text": "long " * (number % 2000)})
        print(number, flush=True)
"""

FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from rbx.errors import DatasetError
from rbx.label.journal import Journal

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
journal = Journal(Path(sys.argv[1]))
journal.append({"number": 0})
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, resource.RLIM_INFINITY))
try:
    journal.append({"number": 1, "text": "x" * 10_000})
except DatasetError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
journal.append({"number": 2})
journal.close()
"""


def numbers(path: Path) -> list[int]:
    with Journal(path) as journal:
        return [entry.row["number"] for entry in journal.entries()]


def test_a_killed_writer_loses_no_row_that_it_had_written(tmp_path: Path) -> None:
    path, dice = tmp_path / "rows.jsonl", random.Random(1)
    told = -1
    for _ in range(4):
        command = [sys.executable, "-c", WRITER, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for _ in range(dice.randrange(1, 400)):
                told = int(writer.stdout.readline())
            writer.send_signal(signal.SIGKILL)
        kept = numbers(path)
        assert kept == list(range(len(kept))), "rows in order, none torn, none twice"
        assert kept[-1] >= told


@settings(deadline=None)
@given(cut=st.integers(min_value=1, max_value=60), long=st.booleans())
def test_a_torn_last_line_is_dropped_and_the_next_row_stands_whole(
    tmp_path_factory: pytest.TempPathFactory, cut: int, long: bool
) -> None:
    path = tmp_path_factory.mktemp("torn") / "rows.jsonl"
    whole = [{"number": 0}, {"number": 1, "text": "x" * (200_000 if long else 50)}]
    lines = [json.dumps(row).encode() + b"\n" for row in whole]
    path.write_bytes(b"".join(lines)[:-cut])
    with Journal(path) as journal:
        offset = journal.append({"number": 2})
        with journal.reader() as read:
            assert read(offset) == {"number": 2}
    assert numbers(path) == [0, 2]


def test_a_second_process_is_refused_until_the_first_has_gone(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        with pytest.raises(DatasetError, match=r"rows\.jsonl: another rbx writes it"):
            Journal(path)
        writer.kill()
    assert numbers(path)[0] == 0


@pytest.mark.parametrize("damage", [b"{'number': 1}\n", b"[1]\n", b"\n", b"\xff\xfe\n", b'{"number": 1}{}\n'])
def test_a_damaged_line_is_named(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"number":0}\n' + damage + b'{"number":2}\n')
    with Journal(path) as journal, pytest.raises(DatasetError, match=r"rows\.jsonl, line 2: damaged"):
        list(journal.entries())


def test_rows_are_read_where_they_lie(tmp_path: Path) -> None:
    with Journal(tmp_path / "rows.jsonl") as journal:
        written = [journal.append({"number": number, "text": "é" * number}) for number in range(50)]
        assert [entry.offset for entry in journal.entries()] == written
        with journal.reader() as read:
            assert [read(offset)["number"] for offset in reversed(written)] == list(range(49, -1, -1))


def test_a_full_disk_is_said_and_leaves_the_journal_whole(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, text=True, check=True
    )
    assert "can't be written" in done.stdout
    assert "run the command again" in done.stdout
    assert numbers(path) == [0, 2]


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DatasetError, match="can't be opened"):
        Journal(tmp_path / "file" / "rows.jsonl")
