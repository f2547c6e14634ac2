"""Files on their way between this machine and a running task: a tar through `tfcluster exec`.

The task's own Python packs and unpacks, so that paths mean what they mean to its program, and so
that a file belongs to the user that the task runs as.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tfcluster.errors import MissingError, TfclusterError, UsageError
from tfcluster.fetching import Fetched, Output, Wanted, receive

REMOTE = re.compile(r"(?P<task>[a-z]([a-z0-9-]*[a-z0-9])?-[0-9]+):(?P<path>.*)", re.DOTALL)
PIECE = 1 << 16
# Both run in the task. Only folders and plain files travel.
PACK = """
import os, sys, tarfile
path, name = sys.argv[1:]
if not os.path.exists(path):
    sys.exit("there is no " + path)
plain = lambda member: member if member.isreg() or member.isdir() else None
with tarfile.open(fileobj=sys.stdout.buffer, mode="w|", dereference=os.path.islink(path)) as made:
    made.add(path, name, filter=plain)
"""
UNPACK = """
import os, shutil, sys, tarfile
target, name = sys.argv[1:]
if target.endswith("/") or os.path.isdir(target):
    target = os.path.join(target, name)
with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as given:
    for member in given:
        path = os.path.normpath(os.path.join(target, member.name))
        try:
            os.makedirs(path if member.isdir() else os.path.dirname(path) or ".", exist_ok=True)
            if member.isreg():
                with given.extractfile(member) as source, open(path, "wb") as file:
                    shutil.copyfileobj(source, file)
                os.chmod(path, member.mode & 0o777)
        except OSError as error:
            sys.exit("cannot write %s: %s" % (error.filename, error.strerror))
"""


@dataclass(frozen=True)
class End:
    """One end of a copy: a path here, or in a task."""

    path: str
    task: str = ""


def parse_end(text: str) -> End:
    """`worker-1:model.keras`, or a path here; `./` in front makes any text a path."""
    found = REMOTE.fullmatch(text)
    if found is None:
        return End(text)
    if not found["path"]:
        raise UsageError(f'"{text}" names no path', hint=f"as in {found['task']}:model.keras")
    return End(found["path"], found["task"])


def parse_ends(source: str, target: str) -> tuple[End, End]:
    """Both ends, of which just one is in a task."""
    ends = parse_end(source), parse_end(target)
    tasks = [end.task for end in ends if end.task]
    if len(tasks) == 2:
        raise UsageError(
            "both paths are in tasks", hint="copy to a folder here first, then from there"
        )
    if not tasks:
        raise UsageError(
            "neither path is in a task", hint="as in: tfcluster cp worker-0:model.keras ."
        )
    return ends


def last_name(path: str) -> str:
    """What a file or folder is called; where the path does not say so, it is `files`."""
    return os.path.basename(os.path.normpath(path)).strip(".") or "files"


# -- From a task -------------------------------------------------------------------------------


def copy_from(argv: Sequence[str], source: End, target: str) -> Fetched:
    """Bring a file or folder here; into the target if that is a folder, else under its name.

    `argv` runs the Python of the task, with our input and output.
    """
    folder, name = Path(target), last_name(source.path)
    if not (target.endswith("/") or folder.is_dir()):
        folder, name = folder.parent, folder.name
    with start([*argv, PACK, source.path, name], sends=True) as child:
        assert child.stdout is not None and child.stderr is not None
        found = receive(Output(pieces(child.stdout)), folder, Wanted())
        said = child.stderr.read()
    check(child.returncode, said, source)
    if not found.files:
        raise MissingError(f"{source.task}: there are no files in {source.path}")
    return Fetched(str(folder / name), found.files, found.size)


def pieces(stream: IO[bytes]) -> Iterator[bytes]:
    while piece := stream.read(PIECE):
        yield piece


# -- To a task ---------------------------------------------------------------------------------


def copy_to(argv: Sequence[str], source: str, target: End) -> Fetched:
    """Bring a file or folder of this machine to a task, by the same rule."""
    if not os.path.exists(source):
        raise MissingError(f"there is no {source}")
    found = Fetched(f"{target.task}:{target.path}")

    def count(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        nonlocal found
        if member.isreg():
            found = found.plus(Fetched("", 1, member.size))
        return member if member.isreg() or member.isdir() else None

    command = [*argv, UNPACK, target.path, last_name(source)]
    with start(command, sends=False) as child:
        assert child.stdin is not None and child.stderr is not None
        try:
            with tarfile.open(fileobj=child.stdin, mode="w|", format=tarfile.PAX_FORMAT) as made:
                made.add(os.path.realpath(source), ".", filter=count)
            child.stdin.close()
        except BrokenPipeError:
            pass  # what it says tells why
        said = child.stderr.read()
    check(child.returncode, said, target)
    return found


def start(argv: Sequence[str], *, sends: bool) -> subprocess.Popen[bytes]:
    """A command that sends a tar, or takes one; what it complains of can be read."""
    stdin, stdout = subprocess.PIPE, subprocess.DEVNULL
    if sends:
        stdin, stdout = stdout, stdin
    return subprocess.Popen(argv, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE)


def check(code: int, said: bytes, end: End) -> None:
    """Raise if the command in the task has failed, with what it says."""
    if code == 0:
        return
    lines = said.decode("utf-8", "replace").strip().splitlines()
    if len(lines) == 1:
        raise TfclusterError(f"{end.task}: {lines[0]}")
    evidence = [f"  {line}" for line in lines[-3:]]
    raise TfclusterError(f"{end.task}: nothing was copied (exit code {code})", evidence=evidence)


def python_in(task: str, *, local: bool, options: Sequence[str]) -> list[str]:
    """What runs the Python of a task, up to its program."""
    ours = [sys.executable, "-m", "tfcluster", "exec", "-T", *options, task, "--"]
    return [*ours, sys.executable if local else "python3", "-I", "-c"]
