"""Files of this user's alone: mode 0600 in folders of mode 0700, whole at any moment, never a link.

A reader gets what it asked for, None if there is no such file, or a DamagedFile that says what is
wrong with it: empty, half written, not JSON, of another shape, of another version, or a link.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import stat
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tfcluster.errors import DamagedFile
from tfcluster.launch.system import append_line, write_json

T = TypeVar("T")
ABSENT = (FileNotFoundError, NotADirectoryError)
PLAIN_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC
TYPE_NAMES = {str: "text", int: "a number", float: "a number", bool: "true or false"}
TYPE_NAMES |= {list: "a list", dict: "an object", type(None): "null"}
NUMBER = (int, float)


# -- Opening and writing -----------------------------------------------------------------------


def make_folder(path: Path) -> None:
    """The folder and those that are missing above it, each of mode 0700 whatever the umask."""
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
            os.chmod(folder, 0o700)


def refuse_link(path: Path) -> None:
    """Raise if this is a symbolic link: our own files never are."""
    if path.is_symlink():
        raise DamagedFile(path, "is a symbolic link, which is not followed", hint="remove the link")


def open_plain(path: Path, flags: int) -> int:
    """A descriptor of a file that is no link; a new file gets mode 0600."""
    try:
        return os.open(path, flags | PLAIN_FLAGS, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            refuse_link(path)
        raise


def open_append(path: Path) -> int:
    """A descriptor for appending, of a file that is made if it is not there."""
    return open_plain(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def open_read(path: Path) -> int:
    """A descriptor for reading an ordinary file; never waits, as opening a pipe would."""
    descriptor = open_plain(path, os.O_RDONLY | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise DamagedFile(path, "is not an ordinary file")
    return descriptor


def write_object(path: Path, value: Any) -> None:
    """Write JSON; a reader sees what was there before, or all of it."""
    refuse_link(path)
    write_json(str(path), value)


def write_bytes(path: Path, data: bytes) -> None:
    """Write all of it at once, as write_object does."""
    refuse_link(path)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        temporary.unlink(missing_ok=True)
        descriptor = open_plain(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename, error.filename2 = str(path), None
        raise


def append(path: Path, line: str) -> None:
    """Append one line at once."""
    refuse_link(path)
    append_line(str(path), line)


@contextlib.contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold a lock file; whether this process has it, which without `wait` may be False."""
    descriptor = open_append(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        os.close(descriptor)
        yield False
        return
    try:
        yield True
    finally:
        os.close(descriptor)


# -- Reading -----------------------------------------------------------------------------------


def read_bytes(path: Path) -> bytes | None:
    """The content, or None if there is no such file."""
    try:
        with os.fdopen(open_read(path), "rb") as file:
            return file.read()
    except ABSENT:
        return None
    except OSError as error:
        raise DamagedFile(path, f"cannot be read: {error.strerror}") from None


def parse_object(path: Path, data: bytes) -> dict[str, Any]:
    """The JSON object that a file holds."""
    if not data.strip():
        raise DamagedFile(path, "is empty")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        half = data.lstrip()[:1] in (b"{", b"[") and data.rstrip()[-1:] not in (b"}", b"]")
        raise DamagedFile(path, "is half written" if half else "is not JSON") from None
    if not isinstance(value, dict):
        raise DamagedFile(path, f"holds {TYPE_NAMES[type(value)]} instead of an object")
    return value


def read_versioned(
    path: Path,
    parse: Callable[[dict[str, Any]], T],
    *,
    versions: Sequence[int],
    key: str = "schemaVersion",
) -> T | None:
    """What `parse` makes of the object in a file; its ValueError says what is wrong there.

    `versions` are those that `parse` understands.
    """
    content = read_bytes(path)
    if content is None:
        return None
    data = parse_object(path, content)
    check_version(path, data.get(key), versions)
    try:
        return parse(data)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        words = f"{error.args[0]}: missing" if isinstance(error, KeyError) else str(error)
        raise DamagedFile(path, f"is not what tfcluster writes there: {words}") from None


def check_version(path: Path, found: Any, versions: Sequence[int]) -> None:
    if isinstance(found, bool) or not isinstance(found, int):
        raise DamagedFile(path, "is not what tfcluster writes there: it has no version")
    if found not in versions:
        age = "a newer" if found > max(versions) else "an older"
        raise DamagedFile(
            path,
            f"has version {found}, of {age} tfcluster; this one reads version {max(versions)}",
            hint="use the tfcluster that wrote it",
        )


def check_shape(data: Mapping[str, Any], shape: Mapping[str, tuple[type, ...]]) -> None:
    """Raise a ValueError unless every key is there and has one of its types."""
    for key, kinds in shape.items():
        if key not in data:
            raise ValueError(f"{key}: missing")
        value = data[key]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            expected = " or ".join(dict.fromkeys(TYPE_NAMES[kind] for kind in kinds))
            raise ValueError(f"{key}: expected {expected}")
