"""Files and processes, as the launcher needs them: whole writes, process identity, groups."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import signal
import subprocess
import sys
import threading
from typing import Any, Callable, Dict, Iterator, List, Optional, Set

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


# -- Files -------------------------------------------------------------------------------------


def write_json(path: str, value: Any) -> None:
    """Write for this user only, and so that a reader, or a crash, never sees half a file."""
    temporary = f"{path}.{os.getpid()}.{threading.get_ident()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)  # what a process of the same pid left behind
        with os.fdopen(os.open(temporary, flags, 0o600), "w", encoding="utf-8") as file:
            json.dump(value, file)
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        error.filename, error.filename2 = path, None  # a failed write alone does not say where
        raise


def append_line(path: str, line: str) -> None:
    """Append one line at once, to a file of this user's; a link is not followed."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        os.write(descriptor, line.encode() + b"\n")
    except OSError as error:
        error.filename = path
        raise
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write everything; a reader that went away must not end the program whose output this is."""
    with contextlib.suppress(BrokenPipeError):
        while data:
            data = data[os.write(descriptor, data) :]


def append_all(descriptor: int, data: bytes) -> None:
    """Append all of it or nothing: what a full disk has taken of it is taken back."""
    written = 0
    try:
        while written < len(data):
            written += os.write(descriptor, data[written:])
    except OSError:
        with contextlib.suppress(OSError):
            if written:
                os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
        raise


def parse_object(text: bytes) -> Optional[Dict[str, Any]]:
    """A JSON object, or None: whatever was written, this does not raise."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


# -- Threads -----------------------------------------------------------------------------------

EXHAUSTED = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)  # the system has no more


def start_thread(action: Callable[..., None], *arguments: Any) -> threading.Thread:
    """A thread that ends with us; OSError if the system has none left."""
    thread = threading.Thread(target=action, args=arguments, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        raise OSError(errno.EAGAIN, "no thread can be started") from None
    return thread


# -- Processes ---------------------------------------------------------------------------------


def process_start(pid: int) -> Optional[str]:
    """What tells a process from a later one with the same pid; None if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return None if fields[0] in (b"Z", b"X") else fields[19].decode()
    except FileNotFoundError:
        if os.path.isdir("/proc/self"):
            return None
    except OSError:
        return None
    listing = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return listing.stdout.strip() or None


def is_stopped(pid: int) -> bool:
    """Whether a process was stopped (SIGSTOP) and not continued."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"T", b"t")
    except (OSError, IndexError):
        return False


def signal_group(pid: int, number: int) -> None:
    """Signal a process group; one that is gone needs no signal."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def stat_fields() -> Iterator[List[bytes]]:
    """Of every process: pid, then the fields of /proc/PID/stat behind its name."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
                if len(fields) > 2:
                    yield [name.encode(), *fields]


def descendants(root: int) -> Set[int]:
    """Every living process below this one, whatever group or session it made for itself."""
    children: Dict[int, List[int]] = {}
    if not os.path.isdir("/proc/self"):
        return set()
    for fields in stat_fields():
        if fields[1] not in (b"Z", b"X"):
            children.setdefault(int(fields[2]), []).append(int(fields[0]))
    found: Set[int] = set()
    open_ends = [root]
    while open_ends:
        for child in children.get(open_ends.pop(), ()):
            if child not in found:
                found.add(child)
                open_ends.append(child)
    return found


def group_memory(group: int) -> int:
    """Resident bytes of a process group; shared pages count once per process."""
    total = 0
    for fields in stat_fields():
        if int(fields[3]) == group:
            with contextlib.suppress(OSError, IndexError):
                with open(f"/proc/{int(fields[0])}/statm", "rb") as file:
                    total += int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return total


def oom_kills() -> int:
    """How often the kernel has killed for memory in our container's cgroup."""
    for path in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        with contextlib.suppress(OSError, ValueError):
            with open(path, encoding="ascii") as file:
                for line in file:
                    if line.startswith("oom_kill "):
                        return int(line.split()[1])
    return 0


def load_prctl() -> Optional[Callable[..., int]]:
    """The system call that Linux alone has; None elsewhere."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            prctl: Callable[..., int] = ctypes.CDLL(None).prctl
            return prctl
    return None


def adopt_orphans() -> None:
    """Become the parent of what our program leaves behind, so that it can be found and ended."""
    prctl = load_prctl()
    if prctl is not None:
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def prepare_child(cpus: Optional[List[int]]) -> Callable[[], None]:
    """What the child does before it becomes the program: die with us, stay on its cores."""
    prctl = load_prctl()

    def in_child() -> None:
        if prctl is not None:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if cpus:
            os.sched_setaffinity(0, cpus)

    return in_child
