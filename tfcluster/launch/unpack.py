"""Unpacking code and results: nothing gets outside the folder, whatever the names in them say.

What reads archives is imported by those who have one: it is a fifth of the memory of a launcher.
"""

from __future__ import annotations

import io
import os
from typing import IO, Any, Callable, List, Tuple

from tfcluster.launch.plan import CodeEntry

CHUNK = 1 << 20


class BadArchive(ValueError):
    """What was delivered is not what was sent, or does not stay where it belongs."""


def unpack_code(code: CodeEntry) -> None:
    """Put the code into its folder, whole and as it was sent, in place of what is there."""
    if not code["parts"]:
        return
    import gzip
    import hashlib
    import shutil
    import tarfile
    import zlib

    with open_parts(code["parts"]) as packed:
        digest = hashlib.sha256()
        try:
            with gzip.GzipFile(fileobj=packed) as content:
                for chunk in iter(lambda: content.read(CHUNK), b""):
                    digest.update(chunk)
        except (OSError, EOFError, zlib.error) as error:
            raise BadArchive(f"the code was damaged on its way: {error}") from None
        if digest.hexdigest() != code["sha256"]:
            raise BadArchive("the code is not what was sent: its checksum differs")
        packed.seek(0)
        fresh = code["target"] + ".new"
        shutil.rmtree(fresh, ignore_errors=True)
        os.makedirs(fresh)
        with tarfile.open(fileobj=packed, mode="r:gz") as archive:
            unpack_tar(archive, fresh, links=True)
    shutil.rmtree(code["target"], ignore_errors=True)
    os.rename(fresh, code["target"])


def open_parts(paths: List[str]) -> IO[bytes]:
    """The parts of an archive as one file."""
    if len(paths) == 1:
        return open(paths[0], "rb")
    joined = io.BytesIO()
    for path in paths:
        with open(path, "rb") as part:
            joined.write(part.read())
    joined.seek(0)
    return joined


def unpack_tar(
    archive: Any,
    folder: str,
    links: bool = False,
    choose: Callable[[Any], bool] = lambda member: True,
) -> List[str]:
    """Files and folders of a tar, in a folder that is there; the names of all files.

    No name leads out of the folder. Links are made last, so that nothing is written through one,
    and only inside; without `links` they are left out, as are devices and pipes.
    """
    import shutil

    files: List[str] = []
    linked: List[Tuple[str, str]] = []
    for member in archive:
        if not choose(member):
            continue
        path = inside(folder, member.name)
        if member.isdir():
            make_parents(folder, path)
            os.makedirs(path, exist_ok=True)
        elif member.isreg():
            make_parents(folder, path)
            source = archive.extractfile(member)
            mode = 0o755 if member.mode & 0o100 else 0o644
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
            with os.fdopen(os.open(path, flags, mode), "wb") as file:
                shutil.copyfileobj(source, file)
            files.append(member.name)
        elif member.issym() and links:
            linked.append((path, member.linkname))
    for path, target in linked:
        make_parents(folder, path)
        os.symlink(target, path)
        if not is_below(os.path.realpath(path), os.path.realpath(folder)):
            os.unlink(path)
            raise BadArchive(f"a link that leads out of the folder: {target!r}")
    return files


def make_parents(folder: str, path: str) -> None:
    """The folder that a path is in, if no link on the way leads elsewhere."""
    parent = os.path.dirname(path)
    if not is_below(os.path.realpath(parent), os.path.realpath(folder)):
        raise BadArchive(f"a link on the way leads out of the folder: {path!r}")
    os.makedirs(parent, exist_ok=True)


def is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def inside(folder: str, name: str) -> str:
    """The path of a name in the folder; BadArchive if it is not one."""
    clean = os.path.normpath(name)
    if "\0" in name or os.path.isabs(name) or clean == ".." or clean.startswith("../"):
        raise BadArchive(f"a name that leads out of the folder: {name!r}")
    return os.path.join(folder, clean)
