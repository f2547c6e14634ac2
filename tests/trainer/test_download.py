"""MNIST from an address: checked, once, and never by accident."""

from __future__ import annotations

import functools
import http.server
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from trainer.data import SHIPPED, TEST, load_mnist
from trainer.download import load_from
from trainer.errors import SettingsError, TrainerError


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[str, Path, list[str]]]:
    """An address, the folder behind it, and what was asked for."""
    folder, asked = shutil.copytree(SHIPPED, tmp_path / "site"), []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            asked.append(self.path)

    handler = functools.partial(Handler, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", folder, asked
    server.shutdown()


def test_files_are_downloaded_once(site: tuple[str, Path, list[str]], tmp_path: Path) -> None:
    url, _, asked = site
    data = load_from(f"{url}/", str(tmp_path / "data"), 5000)
    np.testing.assert_array_equal(data.test.images, load_mnist().test.images)
    assert len(asked) == 4
    load_from(url, str(tmp_path / "data"), 5000)
    assert len(asked) == 4
    load_from(url, None, 5000)
    assert len(asked) == 8


def test_a_file_that_is_not_the_one_is_refused_and_not_kept(
    site: tuple[str, Path, list[str]], tmp_path: Path
) -> None:
    url, folder, _ = site
    shutil.copy(folder / f"{TEST[1]}.gz", folder / "train-labels-idx1-ubyte.gz")
    with pytest.raises(TrainerError, match=r"train-labels-idx1-ubyte.gz is not the file it should"):
        load_from(url, str(tmp_path / "data"), 5000)
    assert not (tmp_path / "data" / "train-labels-idx1-ubyte.gz").exists()
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(b"not gzip")
    with pytest.raises(TrainerError, match="is no whole gzip file"):
        load_from(url, str(tmp_path / "data"), 5000)
    (folder / "train-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(TrainerError, match=r"cannot download http.*gz: File not found"):
        load_from(url, str(tmp_path / "data"), 5000)


def test_only_http_is_an_address(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="expected an http or https address, not 'file:///etc'"):
        load_from("file:///etc", str(tmp_path), 5000)
