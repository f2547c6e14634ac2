"""What the system refuses (no room, no right, no process) as errors that a person can act on."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from tfcluster.errors import TfclusterError

NO_FOLDER = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ELOOP})
NO_PROCESS = frozenset({errno.EAGAIN, errno.ENOMEM})
HINTS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "free some room there"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "make it writable for you"),
    **dict.fromkeys((errno.EIO, errno.ESTALE, errno.ENXIO, errno.ENODEV), "check the disk"),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "raise the limit of open files: ulimit -n 1024"),
}
MORE_PROCESSES = "raise ulimit -u, or pids.max and memory.max of the control group"
ELSEWHERE = "or set TFCLUSTER_HOME to a folder elsewhere"
DELETED = "if its folder was deleted: tfcluster down ends what still runs, up starts again"


class Refused(TfclusterError):
    """The system does not let tfcluster do something."""


def explain(error: OSError, home: Path) -> Refused | None:
    """The error in words, if it is one of the system's surroundings and not a mistake of ours."""
    named = isinstance(error.filename, str | bytes)
    path = Path(os.fsdecode(error.filename)) if named else None
    ours = path is not None and (home in (path, *path.parents) or path in home.parents)
    words = error.strerror or str(error)
    subject = f"{path}: {words}" if path else words
    if error.errno in NO_PROCESS:
        return Refused(f"no process can be started: {words}", hint=MORE_PROCESSES)
    if error.errno in HINTS:
        hint = HINTS[error.errno]
        elsewhere = ours and error.errno not in (errno.EMFILE, errno.ENFILE)
        return Refused(subject, hint=f"{hint}, {ELSEWHERE}" if elsewhere else hint)
    if error.errno in NO_FOLDER and ours and path:
        found = obstacle(path)
        return Refused(found or subject, hint=f"move it away, {ELSEWHERE}" if found else DELETED)
    return None


def in_brief(error: OSError) -> str:
    """Where and what, in a few words."""
    words = error.strerror or str(error)
    named = isinstance(error.filename, str | bytes)
    return f"{os.fsdecode(error.filename)}: {words}" if named else words


def obstacle(path: Path) -> str:
    """What stands where a folder has to be, on the way to this path."""
    for folder in (*reversed(path.parents), path):
        if folder.is_symlink() and not folder.exists():
            return f"{folder}: is a link to {os.readlink(folder)}, which is not there"
        if folder != path and folder.exists() and not folder.is_dir():
            return f"{folder}: is not a folder"
    return ""
