"""Signals that ask for the end, a terminal that closes among them."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rbx.ending import interrupt, on_ending


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        assert signal.getsignal(number) == handler
        signal.signal(number, handler)


def told(*numbers: signal.Signals) -> int:
    asked: list[None] = []
    with on_ending(lambda: asked.append(None)):
        for number in numbers:
            os.kill(os.getpid(), number)
    return len(asked)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_each_of_them_asks_for_the_end(number: signal.Signals) -> None:
    assert told(number) == 1


def test_a_second_one_asks_again_but_for_a_terminal_that_closes() -> None:
    assert told(signal.SIGINT, signal.SIGTERM) == 2
    assert told(signal.SIGHUP, signal.SIGHUP) == 1
    assert told(signal.SIGINT, signal.SIGHUP) == 1
    assert told(signal.SIGHUP, signal.SIGHUP, signal.SIGTERM) == 2


def test_under_nohup_a_terminal_may_close() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert told(signal.SIGHUP) == 0
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_it_may_break_off_what_runs() -> None:
    with pytest.raises(KeyboardInterrupt), on_ending(interrupt):
        os.kill(os.getpid(), signal.SIGHUP)


def test_outside_the_main_thread_signals_are_left_alone() -> None:
    found: list[object] = []

    def elsewhere() -> None:
        with on_ending(interrupt):
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGTERM)]


def test_a_terminal_that_closes_lets_its_command_end_in_order(tmp_path: Path) -> None:
    """The system hangs up, and words for the terminal fail from then on."""
    script = """
        import sys, threading
        from pathlib import Path
        from rbx.ending import on_ending

        asked = []

        def heard():
            print("finishing what is under way", flush=True)
            asked.append(None)

        with on_ending(heard):
            print("begun", flush=True)
            while not asked:
                threading.Event().wait(0.01)
            print("more words", flush=True)
            print("and these", file=sys.stderr, flush=True)
        Path(sys.argv[1]).write_text("in order")
    """
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "end")])
    try:
        assert os.read(terminal, 5) == b"begun"
    finally:
        os.close(terminal)
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert (tmp_path / "end").read_text() == "in order"


def test_words_for_a_file_are_kept(tmp_path: Path) -> None:
    script = """
        import os, signal
        from rbx.ending import on_ending

        with on_ending(lambda: print("heard", flush=True)):
            os.kill(os.getpid(), signal.SIGHUP)
        print("told", flush=True)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "heard\ntold\n"
