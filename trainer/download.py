"""MNIST from an address, for those who keep their own copy: only if `data_url` says so.

Each file is downloaded once into `data_dir`, or into a folder that goes when the data are read.
Nothing is kept that does not have the checksum that the trainer ships.
"""

from __future__ import annotations

import gzip
import hashlib
import tempfile
import urllib.parse
import urllib.request
import zlib
from pathlib import Path

from trainer.checkpoint import write_whole
from trainer.data import SHIPPED, TEST, TRAIN, Mnist, checksums, load_mnist
from trainer.errors import SettingsError, TrainerError

TIMEOUT = 30.0
LARGEST = 64 << 20  # bytes; the largest file has 10 MB


def load_from(url: str, data_dir: str | None, validation_size: int) -> Mnist:
    """MNIST from the address, through `data_dir` if there is one."""
    if data_dir is not None:
        return load_mnist(download(url, data_dir), validation_size)
    with tempfile.TemporaryDirectory(prefix="mnist-") as folder:
        return load_mnist(download(url, folder), validation_size)


def download(url: str, data_dir: str) -> str:
    """The folder with the four files, those that were missing downloaded from the address."""
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise SettingsError(f"data_url: expected an http or https address, not {url!r}")
    folder = Path(data_dir)
    for name in (*TRAIN, *TEST):
        if not (folder / name).exists() and not (folder / f"{name}.gz").exists():
            _fetch(f"{url.rstrip('/')}/{name}.gz", folder / f"{name}.gz")
    return data_dir


def _fetch(url: str, path: Path) -> None:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
            content = answer.read(LARGEST)
    except OSError as error:  # URLError is one
        raise TrainerError(f"cannot download {url}: {getattr(error, 'reason', error)}") from None
    try:
        raw = gzip.decompress(content)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise TrainerError(f"{url} is no whole gzip file: {error}") from None
    expected = checksums(SHIPPED)[path.name.removesuffix(".gz")]
    if hashlib.sha256(raw).hexdigest() != expected:
        raise TrainerError(f"{url} is not the file it should be: its SHA-256 is another one")
    write_whole(path, lambda file: file.write(content))
