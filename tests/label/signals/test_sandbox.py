"""Hostile code, really run: what it may not do, and that nothing makes a failed test pass."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from rbx.label.signals import sandbox
from rbx.label.signals.sandbox import ISOLATED, Limits, Outcome, run_test

LIMITS = Limits(timeout_s=20.0, memory_bytes=512 << 20)
BRIEF = Limits(timeout_s=1.0, memory_bytes=512 << 20)
GOOD = "def f(x):\n    return 2 * x"
TEST = "assert f(2) == 4"


def outcome(answer: str, test: str = TEST, limits: Limits = LIMITS) -> Outcome:
    found = asyncio.run(run_test(answer, test, limits))
    assert found is not None
    return found


def isolated(*what: str) -> frozenset[str]:
    """What this system shuts off; the test skips where that lacks one of ``what``."""
    found = outcome(GOOD).isolated
    if lacking := set(what) - found:
        pytest.skip(f"this system gives code no separate {', '.join(sorted(lacking))}")
    return found


def test_right_and_wrong_code() -> None:
    right = outcome(GOOD)
    assert (right.loaded, right.failure) == (True, None)
    wrong = outcome("def f(x):\n    return x")
    assert (wrong.loaded, wrong.failure) == (True, "AssertionError")


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        ("def f(x) return x", "SyntaxError"),
        ("import numpy_that_is_not_there", "ModuleNotFoundError"),
        ("import rbx", "ModuleNotFoundError"),
        ("x = input()", "EOFError"),
        ("raise SystemExit(0)", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise BaseException", "BaseException"),
        ("import os; os._exit(0)", "the process ended early"),
        ("import os; os.abort()", "the process ended early"),
        ("class Stolen_Text(Exception): pass\nraise Stolen_Text('secret')", "error"),
        ("x = bytearray(1 << 31)", "MemoryError"),
        ("x = '\x00'\x00", "SyntaxError|ValueError"),
    ],
)
def test_code_that_does_not_load(answer: str, failure: str) -> None:
    found = outcome(answer)
    assert not found.loaded
    assert found.failure in failure.split("|")


@pytest.mark.parametrize(
    "body",
    [
        "os._exit(0)",
        "sys.exit(0)",
        "raise SystemExit(0)",
        "raise BaseException",
        "os.kill(os.getpid(), 9)",
        "os.abort()",
        "os.execv('/bin/true', ['true'])",
        "print('passed'); sys.stdout.flush(); return 5",
        "[os.write(fd, b'loaded\\npassed\\n') for fd in range(3, 64) if writable(fd)]; os._exit(0)",
        "[os.write(fd, b'loaded\\n' + b'0' * 32) for fd in range(3, 64) if writable(fd)]; os._exit(0)",
        "[os.write(fd, b'x' * 5000) for fd in range(3, 64) if writable(fd)]; return 4",
        "os.closerange(3, 64); return 4",
        "return f(x + 1)",
        "import ctypes; ctypes.string_at(0)",
        "import threading; threading.Thread(target=os._exit, args=(0,)).start(); time.sleep(9)",
    ],
)
def test_no_way_out_of_a_test_counts_as_passing_it(body: str) -> None:
    answer = (
        "import os, sys, time\n"
        "def writable(fd):\n"
        "    try:\n        return os.write(fd, b'') == 0\n"
        "    except OSError:\n        return False\n"
        f"def f(x):\n    {body}\n"
    )
    found = outcome(answer)
    assert found.loaded
    assert found.failure is not None


@pytest.mark.parametrize(
    "patch",
    [
        "import builtins\nbuiltins.AssertionError = type('Never', (Exception,), {})",
        "import builtins\nbuiltins.exec = builtins.compile = lambda *a, **k: None",
        "import builtins\nbuiltins.len = lambda x: 4\nbuiltins.abs = lambda x: 0",
        "import os, sys\nos.write = lambda *a: 0\nos._exit = lambda code: None\nsys.exit = print",
        "import sys\nsys.excepthook = lambda *a: None\nsys.settrace(lambda *a: None)",
        "import __main__\n__main__.main = __main__._run = lambda *a: 0",
        "__builtins__ = {}",
        "import atexit, os\natexit.register(os._exit, 0)",
        "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)",
    ],
)
def test_patching_the_interpreter_does_not_pass_a_test(patch: str) -> None:
    answer = patch + "\ndef f(x):\n    return [x]"
    assert outcome(answer, "assert abs(len(f(2)) - 4) < 1").failure is not None
    assert outcome(answer, "assert len(f(2)) == 1").failure is None  # and does not fail one


def test_a_test_sees_the_answers_own_names_first() -> None:
    assert outcome("def len(x):\n    return 4", "assert len('') == 4").failure is None


def test_the_code_is_a_module_but_not_the_main_one() -> None:
    answer = (
        "from __future__ import annotations\nfrom dataclasses import dataclass, field\n"
        "@dataclass\nclass P:\n    x: int = 0\n    y: list[int] = field(default_factory=list)\n"
        "if __name__ == '__main__':\n    raise ValueError"
    )
    assert outcome(answer, "assert P(1) == P(1, [])").failure is None


def test_a_process_that_the_answer_forks_does_not_pass_for_it() -> None:
    answer = "import os, time\npid = os.fork()\ndef f(x):\n    return 4 if pid == 0 else 5"
    assert outcome(answer).failure == "AssertionError"


@pytest.mark.parametrize(
    "answer",
    [
        "while True:\n    pass",
        "import time\ntime.sleep(60)",
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))\nwhile True:\n    pass",
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "import os, sys\nwhile True:\n    os.write(1, b'x' * 65536)",
        "import os\nos.setpgid(0, 0) if os.getpgid(0) != os.getpid() else None\nwhile True:\n    pass",
    ],
)
def test_endless_code_is_ended(answer: str) -> None:
    assert outcome(answer, limits=BRIEF)[:2] == (False, "time ran out")


def test_an_endless_test_is_ended() -> None:
    limits = LIMITS._replace(timeout_s=4.0)  # enough to load the answer on a busy machine
    assert outcome("def f(x):\n    while True:\n        pass", limits=limits)[:2] == (True, "time ran out")


def running() -> set[int]:
    """Processes of sandboxes, by Linux's /proc."""
    found = set()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and sandbox.SCRIPT.name.encode() in (entry / "cmdline").read_bytes():
                found.add(int(entry.name))
    return found


def assert_gone(before: set[int]) -> None:
    """All sandboxes but those of ``before`` end soon."""
    end_s = time.monotonic() + 10
    while running() - before and time.monotonic() < end_s:
        time.sleep(0.02)
    assert running() <= before


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_it_started_ends_with_it() -> None:
    isolated("processes")
    # Detached twice over, in a session of its own.
    answer = (
        "import os, time\n"
        "if os.fork() == 0:\n    os.setsid()\n    os.fork()\n    time.sleep(60)\n"
        "def f(x):\n    return 4"
    )
    before = running()
    assert outcome(answer).failure is None
    assert_gone(before)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_cancelled_run_leaves_no_process() -> None:
    before = running()

    async def run() -> None:
        task = asyncio.create_task(run_test("import time\ntime.sleep(60)", TEST, LIMITS))
        while not running() - before:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert_gone(before)


def test_a_fork_bomb_is_defused() -> None:
    isolated(*ISOLATED)
    bomb = "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass"
    assert outcome(bomb, limits=BRIEF).failure == "time ran out"
    polite = (
        "import os\ncount = 0\nwhile count < 100:\n    if os.fork() == 0:\n        os.pause()\n    count += 1"
    )
    assert outcome(polite.replace("os.pause()", "__import__('signal').pause()")).failure == "BlockingIOError"


def test_memory_is_limited_in_small_pieces_too() -> None:
    assert outcome("x = []\nwhile True:\n    x.append(bytearray(1 << 20))").failure == "MemoryError"
    assert outcome("x = bytearray(100 << 20)\n" + GOOD).failure is None


def test_a_gigabyte_is_not_written() -> None:
    answer = (
        "with open('big', 'wb') as file:\n    for _ in range(1024):\n        file.write(bytes(1 << 20))\n"
    )
    assert outcome(answer).failure == "OSError"


def test_many_files_do_not_fill_the_disk() -> None:
    isolated("files")
    answer = (
        "for number in range(100):\n"
        "    with open(f'part{number}', 'wb') as file:\n        file.write(bytes(8 << 20))\n"
    )
    assert outcome(answer).failure == "OSError"


def test_open_files_are_limited() -> None:
    assert outcome("held = [open(__import__('os').devnull) for _ in range(1000)]").failure == "OSError"


def test_the_environment_holds_nothing_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RBX_TEST_API_KEY", "sk-secret")
    answer = "import os\nkept = dict(os.environ)\n"
    assert outcome(answer, "assert not {k for k in kept if 'RBX' in k or 'KEY' in k}").failure is None
    assert (
        outcome(
            answer, "assert set(kept) <= {'PATH', 'LANG', 'LC_CTYPE', 'HOME', 'TMPDIR', 'PYTHONHASHSEED'}"
        ).failure
        is None
    )


def test_its_folder_is_empty_its_own_and_gone_afterwards() -> None:
    def folders() -> set[str]:
        return {path.name for path in Path(tempfile.gettempdir()).glob("rbx-code-*")}

    before = folders()
    answer = "import os\nfound = os.listdir()\nos.mkdir('d')\nopen('d/x', 'w').write('x')\nos.chmod('d', 0)"
    assert outcome(answer, "assert found == [] and open('y', 'w').write('y') == 1").failure is None
    assert folders() <= before


def test_our_files_are_out_of_sight(tmp_path: Path) -> None:
    isolated("files")
    secret = tmp_path / "secret"
    secret.write_text("sk-secret")
    secret.chmod(0o644)
    for path in (
        secret,
        Path(__file__),
        Path(sandbox.__file__),
        Path("/etc/passwd"),
        Path("/proc/1/environ"),
    ):
        assert path.exists()
        assert outcome(f"open({str(path)!r}).read()").failure == "FileNotFoundError"


def test_nothing_outside_its_folder_is_written() -> None:
    isolated("files")
    written = "import os, sys\ntried = 0\nfor folder in [os.path.dirname(os.__file__), '/usr', '/lib']:\n"
    written += (
        "    try:\n        open(folder + '/rbx-was-here', 'w')\n    except OSError:\n        tried += 1\n"
    )
    assert outcome(written, "assert tried == 3").failure is None
    assert not (Path(os.__file__).parent / "rbx-was-here").exists()


def test_the_network_is_out_of_reach() -> None:
    isolated("network")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        port = server.getsockname()[1]
        answer = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 5)"
        assert outcome(answer).failure in ("OSError", "ConnectionRefusedError")
        with pytest.raises(TimeoutError):
            server.accept()


def test_other_processes_are_out_of_reach() -> None:
    isolated("processes")
    answer = f"import os\nos.kill({os.getpid()}, 0)"
    assert outcome(answer).failure == "ProcessLookupError"


def test_it_has_no_rights_to_get_out() -> None:
    isolated("files")
    answer = (
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "made = [libc.mount(b'x', b'/tmp', b'tmpfs', 0, None), libc.chroot(b'/tmp'), libc.setuid(0)]\n"
        "made += [libc.umount2(b'/tmp', 2), libc.sethostname(b'x', 1)]"
    )
    assert outcome(answer, "assert made == [-1] * 5").failure is None


def test_the_order_of_a_set_is_no_chance() -> None:
    program = "print(''.join({'alpha', 'beta', 'gamma', 'delta', 'epsilon', 'zeta'}))"
    ordered = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    answer = program.replace("print(", "order = (")
    assert outcome(answer, f"assert order == {ordered!r}").failure is None


def test_verdicts_stand_side_by_side() -> None:
    async def run() -> list[Outcome | None]:
        answers = [GOOD, "def f(x):\n    return x"] * 4
        return list(await asyncio.gather(*(run_test(answer, TEST, LIMITS) for answer in answers)))

    assert [found and found.failure for found in asyncio.run(run())] == [None, "AssertionError"] * 4


@pytest.fixture
def without_namespaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a system that grants none, such as macOS or a container: limits are all there is."""
    script = tmp_path / "plain.py"
    script.write_text(
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('confined', {str(sandbox.SCRIPT)!r})\n"
        "confined = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(confined)\n"
        "def refused(root):\n    raise PermissionError\n"
        "confined._namespaces = refused\n"
        "sys.exit(confined.main())\n"
    )
    monkeypatch.setattr(sandbox, "SCRIPT", script)


@pytest.mark.usefixtures("without_namespaces")
@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (GOOD, None),
        ("def f(x):\n    return 5", "AssertionError"),
        ("import os\ndef f(x):\n    os._exit(0)", "the process ended early"),
        ("x = bytearray(1 << 31)", "MemoryError"),
        ("open('big', 'wb').write(bytes(100 << 20))", "OSError"),
        ("import os\nos.kill(os.getpid(), 9)", "the process ended early"),
        ("while True:\n    pass", "time ran out"),
        ("import os\nif os.fork() == 0:\n    while True:\n        pass\n" + GOOD, None),
    ],
)
def test_limits_hold_without_namespaces(answer: str, failure: str | None) -> None:
    if sys.platform == "darwin" and failure == "MemoryError":
        pytest.skip("macOS takes no limit on memory")
    before = running() if sys.platform == "linux" else set()
    found = outcome(answer, limits=BRIEF if failure == "time ran out" else LIMITS)
    assert (found.failure, found.isolated - {"shared-memory"}) == (failure, frozenset())
    if sys.platform == "linux":
        assert_gone(before)


def test_a_process_that_can_not_start_is_no_failed_test() -> None:
    starved = Limits(20.0, 1 << 20)
    found = asyncio.run(run_test(GOOD, TEST, starved))
    assert found is None or not found.loaded


UNCOUNTED = {
    "shared memory": "libc.shmget(0, ctypes.c_size_t(20 << 20), 0o1600)",
    "messages": "libc.msgget(0, 0o1600)",
    "a file in memory": "libc.memfd_create(b'x', 0)",
    "a namespace": "libc.unshare(0x10000000)",
    "a namespace by clone": "libc.syscall(CLONE, 0x10000011, 0, 0, 0, 0)",
}


@pytest.mark.parametrize("call", UNCOUNTED.values(), ids=UNCOUNTED)
def test_memory_that_no_limit_of_a_process_counts_is_out_of_reach(call: str) -> None:
    isolated("shared-memory")
    call = call.replace("CLONE", "220" if os.uname().machine == "aarch64" else "56")
    answer = f"import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nr = {call}\ne = ctypes.get_errno()"
    found = outcome(answer, "assert (r, e) == (-1, 1), (r, e)")
    assert (found.loaded, found.failure) == (True, None)


def test_ordinary_code_still_has_threads_processes_and_event_loops() -> None:
    answer = (
        "import asyncio, subprocess, threading\n"
        "seen = []\n"
        "thread = threading.Thread(target=seen.append, args=(1,))\n"
        "thread.start(); thread.join()\n"
        "async def two():\n    await asyncio.sleep(0)\n    return 2\n"
        "seen.append(asyncio.run(two()))\n"
        "seen.append(subprocess.run(['/bin/sh', '-c', 'exit 3']).returncode)\n"
    )
    found = outcome(answer, "assert seen == [1, 2, 3], seen")
    assert (found.loaded, found.failure) == (True, None)
