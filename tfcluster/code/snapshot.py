"""A snapshot of a person's code: one archive, the same bytes for the same files.

Snapshots are kept under <home>/code by what is in them, so that a plan needs to hold no more than
the digest, and `render`, `up` and `diff` find the same bytes.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import shutil
import tarfile
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfcluster.archive import home
from tfcluster.code.ignoring import compiled, matches
from tfcluster.code.secrets import looks_secret_content
from tfcluster.code.walk import Entry, Rules, list_code, refuse_secrets, rules_of
from tfcluster.errors import MissingError, TfclusterError, UsageError
from tfcluster.files import make_folder

if TYPE_CHECKING:
    from tfcluster.spec.loader import LoadedSpec

LIVE = "live"  # stands for the digest of code that is used where it is
KEPT = 30 * 86400.0  # seconds after its last use that a snapshot is kept beside the runs' own


@dataclass(frozen=True)
class Snapshot:
    """Which code, and how much."""

    digest: str  # sha256 of the archive before it is packed
    folder: str
    files: int = 0
    size: int = 0  # of all files
    packed: int = 0  # of the archive

    @property
    def live(self) -> bool:
        return self.digest == LIVE


def snapshot_of(loaded: LoadedSpec) -> Snapshot | None:
    """The code of a spec as it is now; None if the spec has none."""
    spec, base = loaded.spec, loaded.base
    if spec.code is None:
        return None
    folder = (base / spec.code.folder).resolve()
    if spec.code.live:
        if not folder.is_dir():
            raise MissingError(f"code: there is no folder {folder}")
        return Snapshot(LIVE, str(folder))
    return take_snapshot(folder, rules_of(loaded))


def take_snapshot(folder: Path, rules: Rules) -> Snapshot:
    """Read the folder into an archive that is kept by its content."""
    entries = list_code(folder, rules)
    make_folder(store())
    forget_old()
    try:
        with tempfile.NamedTemporaryFile(dir=store(), suffix=".tmp", delete=False) as file:
            try:
                digest = write_archive(folder.resolve(), entries, file, rules)
                os.replace(file.name, archive_path(digest))
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(file.name)
                raise
    except OSError as error:
        words = f"{error.strerror}: {error.filename}" if error.filename else str(error)
        raise TfclusterError(f"code: the snapshot cannot be written: {words}") from None
    packed = archive_path(digest).stat().st_size
    size = sum(entry.size for entry in entries)
    return Snapshot(digest, str(folder), len(entries), size, packed)


class Hashing(io.RawIOBase):
    """Passes on what is written, and remembers its digest."""

    def __init__(self, target: Any):
        self.target, self.sha256 = target, hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.sha256.update(data)
        self.target.write(data)
        return len(data)


def write_archive(folder: Path, entries: Sequence[Entry], file: Any, rules: Rules) -> str:
    """A tar.gz that depends on names, contents and executable bits alone; its content's digest."""
    allowed = compiled(rules.allow)
    secret: list[str] = []
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
        hashing = Hashing(packed)
        with tarfile.open(fileobj=hashing, mode="w|", format=tarfile.PAX_FORMAT) as archive:
            for entry in entries:
                data = b"" if entry.link is not None else read_file(folder / entry.path)
                if looks_secret_content(entry.path, data) and not matches(allowed, entry.path):
                    secret.append(entry.path)
                archive.addfile(header(entry, len(data)), io.BytesIO(data))
    refuse_secrets(secret)
    return hashing.sha256.hexdigest()


def header(entry: Entry, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(entry.path)
    info.mode = 0o755 if entry.executable else 0o644
    if entry.link is not None:
        info.type, info.linkname = tarfile.SYMTYPE, entry.link
    else:
        info.size = size
    return info


def read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"code: cannot read {path}: {error.strerror}", hint="leave it out, or allow it"
        ) from None


# -- Where they are kept -----------------------------------------------------------------------


def store() -> Path:
    return home() / "code"


def archive_path(digest: str) -> Path:
    return store() / f"{digest}.tar.gz"


def archive_bytes(digest: str) -> bytes:
    """The packed archive; it is there for whoever has just planned with it."""
    try:
        return archive_path(digest).read_bytes()
    except FileNotFoundError:
        raise MissingError(
            f"code: the snapshot {digest[:12]} is not kept any more", hint="run: tfcluster up"
        ) from None


def keep_with_run(digest: str, path: Path) -> None:
    """A copy in the run's folder, for as long as the run is remembered."""
    if digest == LIVE or path.exists():
        return
    try:
        os.link(archive_path(digest), path)
    except OSError:
        shutil.copyfile(archive_path(digest), path)
        path.chmod(0o600)


def bring_back(digest: str, path: Path) -> None:
    """Have the run's own copy in the store again, for a run that goes on with the same code."""
    if digest != LIVE and not archive_path(digest).exists() and path.exists():
        make_folder(store())
        shutil.copyfile(path, archive_path(digest))


def forget_old() -> None:
    """Remove what was not used for long, and what a killed command left half written."""
    now = time.time()
    for path in store().iterdir():
        with contextlib.suppress(OSError):
            if now - path.stat().st_mtime > KEPT:
                path.unlink()
