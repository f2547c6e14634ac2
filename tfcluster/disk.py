"""The disk below a folder: whether it can be written at all, and how much a folder takes of it."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

LITTLE = 16 << 10  # bytes; less is no room for a record and its successor


def disk_trouble(folder: Path) -> str:
    """What keeps everybody from writing in this folder, in the system's words; else nothing."""
    try:
        found = os.statvfs(folder)
    except OSError as error:
        return error.strerror or str(error)
    if found.f_flag & os.ST_RDONLY:
        return os.strerror(errno.EROFS)
    if found.f_bavail * found.f_frsize < LITTLE or (found.f_files and not found.f_favail):
        return os.strerror(errno.ENOSPC)
    return ""


def folder_size(folder: Path) -> int:
    """Bytes of all files below a folder; links are not followed."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(path, name)).st_size
    return total
