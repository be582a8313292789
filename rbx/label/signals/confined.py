"""One test of an answer's Python code, in a process that may do little; a script of the standard library.

``sandbox`` runs it by path, as ``python -s -S -B confined.py``, so that nothing of rbx is loaded beside
what a model wrote. It reads a task from its input, shuts itself off as far as the platform lets it, and
forks the process that runs the code. What that reports counts only with the task's nonce at its end.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import errno
import json
import os
import resource
import signal
import sys
import types
from pathlib import Path
from typing import Any

FILE_BYTES = 16 << 20
FOLDER_BYTES = 64 << 20
OPEN_FILES = 64
PROCESSES = 16
NOBODY = 65534
PASSED, FAILED, TIMED_OUT = 0, 1, 3

_NEW_MOUNTS, _NEW_IPC, _NEW_USERS, _NEW_PROCESSES, _NEW_NETWORK = (
    0x00020000,
    0x08000000,
    0x10000000,
    0x20000000,
    0x40000000,
)
_MOUNT_SETATTR, _AT_FDCWD, _RECURSIVE = 442, -100, 0x8000
_READ_ONLY, _NO_SETUID, _NO_DEVICES, _BIND, _REC, _PRIVATE = 1, 2, 4, 4096, 16384, 1 << 18
_DETACH, _NO_NEW_PRIVILEGES, _DIE_WITH_PARENT = 2, 38, 1
_SET_SECCOMP, _FILTER = 22, 2

# By machine: its audit number; shmget, shmat, semget, msgget, mq_open, memfd_create, memfd_secret, unshare,
# setns, add_key, request_key, keyctl and io_uring_setup; clone and clone3.
_MACHINES = {
    "x86_64": (0xC000003E, (29, 30, 64, 68, 240, 319, 447, 272, 308, 248, 249, 250, 425), 56, 435),
    "aarch64": (0xC00000B7, (194, 196, 190, 186, 180, 279, 447, 97, 268, 217, 218, 219, 425), 220, 435),
}
_NAMESPACES = 0x7E020000  # flags of clone that make a new one of any kind


def main() -> int:
    """Run the task; 0 if the test passed, 1 if not, 3 if time ran out."""
    del sys.path[0]  # the folder of this file
    report = int(sys.argv[1])
    task = json.load(sys.stdin.buffer)
    isolated = _isolate(task["folder"])
    os.environ["HOME"] = os.environ["TMPDIR"] = str(Path.cwd())
    os.write(report, f"isolated {' '.join(isolated)}\n".encode())
    child = os.fork()
    if child == 0:
        try:
            _limit(task)
            _run(task, report)
        finally:
            os._exit(FAILED)
    os.close(report)
    return _wait(child, task["timeout_s"])


def _wait(child: int, timeout_s: float) -> int:
    ended: list[int] = []

    def end(number: int, frame: types.FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):  # just ended by itself
            os.kill(child, signal.SIGKILL)
            ended.append(number)

    signal.signal(signal.SIGALRM, end)
    signal.signal(signal.SIGTERM, end)
    signal.setitimer(signal.ITIMER_REAL, timeout_s)
    _, status = os.waitpid(child, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    with contextlib.suppress(OSError):  # what the code left running; in a namespace all of it is gone
        os.killpg(child, signal.SIGKILL)
    if ended:
        return TIMED_OUT
    return PASSED if status == 0 else FAILED


def _limit(task: dict[str, Any]) -> None:
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    seconds = int(task["timeout_s"]) + 1
    limits = {
        "RLIMIT_AS": task["memory_bytes"],
        "RLIMIT_CPU": seconds,
        "RLIMIT_FSIZE": FILE_BYTES,
        "RLIMIT_NOFILE": OPEN_FILES,
        "RLIMIT_NPROC": PROCESSES,
        "RLIMIT_CORE": 0,
        "RLIMIT_MSGQUEUE": 0,
    }
    for name, most in limits.items():
        if hasattr(resource, name):
            # A platform may know a limit and refuse it, as macOS does RLIMIT_AS.
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(getattr(resource, name), (most, most))
    if sys.platform == "linux":
        libc = _libc()
        libc.capset(ctypes.byref((ctypes.c_uint32 * 2)(0x20080522, 0)), ctypes.byref((ctypes.c_uint32 * 6)()))
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)  # also where no call could be forbidden
        libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)


def _run(task: dict[str, Any], report: int) -> None:
    """Run answer and test, then report. All names that matter are bound before foreign code runs."""
    write, leave, who, execute = os.write, os._exit, os.getpid, exec
    own, nonce = os.getpid(), task["nonce"].encode()
    pristine = dict(vars(builtins))
    standard = {kind for kind in pristine.values() if isinstance(kind, type)}
    test = compile(task["test"], "<test>", "exec")
    source = task.pop("answer")
    task.clear()

    def tell(words: bytes) -> None:
        if who() == own:  # a process that the answer forked runs on in here
            write(report, words)

    # A module of its own, as dataclasses look for it; never `__main__`, whose block is no part of what
    # is tested.
    module = types.ModuleType("answer")
    sys.modules["answer"] = sys.modules["__main__"] = module
    sys.argv = ["answer"]
    names = vars(module)
    try:
        execute(compile(source, "<answer>", "exec"), names)
        tell(b"loaded\n")
        # Whatever the answer made of the builtins, the test's own statements see them as they were.
        names["__builtins__"] = pristine
        execute(test, names)
    except BaseException as error:  # SystemExit and KeyboardInterrupt are failures here like any other
        kind = type(error)
        tell((kind.__name__ if kind in standard else "error").encode() + b"\n")
        leave(FAILED)
    tell(nonce)
    leave(PASSED)


def _isolate(folder: str) -> list[str]:
    """Leave the machine's network, processes and files behind, as far as possible; what was left."""
    os.chdir(folder)
    done = []
    if sys.platform == "linux":
        root = os.geteuid() == 0
        with contextlib.suppress(OSError):
            _namespaces(root)
            done += ["network", "processes"]
            _own_files(Path(folder), root)
            done.append("files")
        if root:
            _become_nobody(folder, "files" in done)
        with contextlib.suppress(OSError):
            _forbid_calls()
            done.append("shared-memory")
    return done


class _Step(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("yes", ctypes.c_uint8),
        ("no", ctypes.c_uint8),
        ("k", ctypes.c_uint32),
    )


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("steps", ctypes.POINTER(_Step)))


def _forbid_calls() -> None:
    """Refuse system calls whose memory or rights no limit of a process counts; raises where none can be.

    System V's shared memory and messages, files in memory, keys, io_uring's buffers, and new namespaces,
    within which a process would have rights again, such as to mount file systems in memory.
    """
    if os.uname().machine not in _MACHINES or sys.maxsize < 1 << 32:
        raise OSError("no list of system calls for this machine")
    audit, numbers, clone, clone3 = _MACHINES[os.uname().machine]
    load, equal, at_least, any_bit, leave = 0x20, 0x15, 0x35, 0x45, 0x06
    refused, unknown, allowed = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS, 0x7FFF0000
    steps = [(load, 0, 0, 4), (equal, 1, 0, audit), (leave, 0, 0, refused)]
    steps += [(load, 0, 0, 0), (at_least, 0, 1, 0x40000000), (leave, 0, 0, refused)]
    for number in numbers:
        steps += [(equal, 0, 1, number), (leave, 0, 0, refused)]
    # The flags of clone3 lie in memory; where it is unknown, libraries take clone.
    steps += [(equal, 0, 1, clone3), (leave, 0, 0, unknown)]
    steps += [(equal, 0, 3, clone), (load, 0, 0, 16), (any_bit, 0, 1, _NAMESPACES), (leave, 0, 0, refused)]
    steps += [(leave, 0, 0, allowed)]
    program = _Filter(len(steps), (_Step * len(steps))(*(_Step(*step) for step in steps)))
    libc = _libc()
    _checked(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _checked(libc.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0))


def _namespaces(root: bool) -> None:
    user, group = os.geteuid(), os.getegid()
    parts = _NEW_MOUNTS | _NEW_IPC | _NEW_PROCESSES | _NEW_NETWORK
    _checked(_libc().unshare(parts if root else parts | _NEW_USERS))
    if not root:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _own_files(folder: Path, root: bool) -> None:
    """A file system in memory with the interpreter and the system's libraries, all else out of sight."""
    libc = _libc()
    wanted = (ctypes.c_uint64 * 4)(_READ_ONLY | _NO_SETUID, 0, _PRIVATE, 0)
    _checked(
        libc.syscall(_MOUNT_SETATTR, _AT_FDCWD, b"/", _RECURSIVE, ctypes.byref(wanted), ctypes.sizeof(wanted))
    )
    options = f"size={FOLDER_BYTES},mode=0755".encode()
    _checked(libc.mount(b"rbx", bytes(folder), b"tmpfs", _NO_SETUID | _NO_DEVICES, options))
    for source in _visible():
        target = folder / source.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            target.mkdir()
        else:
            target.touch()
        _checked(libc.mount(bytes(source), bytes(target), None, _BIND | _REC, None))
    home = folder / "tmp"
    home.mkdir(exist_ok=True)
    if root:
        os.chown(home, NOBODY, NOBODY)
    os.chdir(folder)
    _checked(libc.pivot_root(b".", b"."))
    _checked(libc.umount2(b".", _DETACH))
    os.chdir("/tmp")


def _visible() -> list[Path]:
    """Folders that the interpreter needs, none within another, and three harmless devices."""
    wanted = [Path(name) for name in ("/usr", "/lib", "/lib64", "/bin", "/nix/store")]
    wanted += [Path(sys.base_prefix), *(Path(entry) for entry in sys.path)]
    wanted += [Path("/dev/null"), Path("/dev/zero"), Path("/dev/urandom")]
    shown: list[Path] = []
    for path in wanted:
        if path.exists() and path != Path("/") and not any(path.is_relative_to(known) for known in shown):
            shown.append(path)
    return shown


def _become_nobody(folder: str, files_are_own: bool) -> None:
    """Root's rights end here, and only another user's processes can be counted.

    Without files of its own the interpreter may lie where nobody else can read; then root stays root.
    """
    if not files_are_own:
        os.seteuid(NOBODY)
        readable = os.access(os.__file__, os.R_OK, effective_ids=True)
        os.seteuid(0)
        if not readable:
            return
        os.chown(folder, NOBODY, NOBODY)
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    # A count of processes of its own, apart from whatever else runs as nobody.
    _libc().unshare(_NEW_USERS)


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    sys.exit(main())
