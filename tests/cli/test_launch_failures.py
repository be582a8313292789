"""Servers that do not come up, or are gone: what ``rbx launch`` says, and that nothing is left of them."""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from tests.cli.launching import local_launch
from tests.serve.launch.processes import Running, running

# Like vLLM: a server with a worker, both in one group, that does not end when it is asked to.
STUBBORN = (
    "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); os.fork(); "
    "print('loading', flush=True); time.sleep(600)"
)


def test_a_command_that_fails_shows_the_end_of_its_log(tmp_path: Path) -> None:
    script = "import sys; print('a', 'long', 'way'); sys.exit('no such device: cuda:9')"
    with running(local_launch(tmp_path, script), tmp_path) as command:
        assert command.process.wait(60.0) == 1
        assert command.left() == []
        assert "ended with exit code 1" in command.said
        assert "a long way" in command.said
        assert "no such device: cuda:9" in command.said
        assert "Traceback" not in command.said


def test_a_tier_that_never_answers_is_given_up_and_killed_though_it_ignores_sigterm(tmp_path: Path) -> None:
    script = (
        "import signal as s, time; s.signal(15, s.SIG_IGN); print('loading', flush=True); time.sleep(600)"
    )
    with running(local_launch(tmp_path, script, ready_s=3.0), tmp_path) as command:
        assert command.process.wait(60.0) == 1
        assert command.left() == []
        assert "2 of 2 instances are not ready after 3 s" in command.said
        assert "loading" in command.said


def loading(command: Running, folder: Path) -> list[int]:
    """Both servers and their workers, once all four run."""
    logs = [folder / f"results/launch/paper/3b-a30-{k}.log" for k in range(2)]
    command.until(lambda: all(log.exists() and log.read_text().count("loading") == 2 for log in logs))
    return command.left()


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_servers_that_load_do_not_outlive_a_killed_rbx(tmp_path: Path) -> None:
    with running(local_launch(tmp_path, STUBBORN), tmp_path) as command:
        assert len(loading(command, tmp_path)) == 2 * (1 + 2)  # a guard, a server and its worker
        command.process.kill()
        command.process.wait()
        command.nothing_left()


def test_a_server_that_runs_out_of_memory_while_it_loads_ends_the_launch(tmp_path: Path) -> None:
    """As the system ends it: no word of its own, and a worker left behind."""
    with running(local_launch(tmp_path, STUBBORN), tmp_path) as command:
        victim = next(
            pid
            for pid in loading(command, tmp_path)
            if b"guard.py" not in Path(f"/proc/{pid}/cmdline").read_bytes()
        )
        os.kill(victim, signal.SIGKILL)
        assert command.process.wait(60.0) == 1
        assert command.left() == []
        assert "ended with exit code 137 (SIGKILL; the system does so when memory runs out)" in command.said
        assert "loading" in command.said
        assert "Traceback" not in command.said


def test_nothing_is_started_where_the_gateways_port_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with running([*local_launch(tmp_path, STUBBORN)[:-1], str(port)], tmp_path) as command:
            assert command.process.wait(60.0) == 1
            assert f"port {port} of 127.0.0.1 is in use" in command.said
            assert command.left() == []
            assert not (tmp_path / "results").exists()


def test_a_server_whose_own_port_was_taken_meanwhile_is_told_in_its_words(tmp_path: Path) -> None:
    script = (
        "import socket, sys; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); "
        "t = socket.socket(); t.bind(s.getsockname())"
    )
    with running(local_launch(tmp_path, script), tmp_path) as command:
        assert command.process.wait(60.0) == 1
        assert "Address already in use" in command.said
        assert command.left() == []
