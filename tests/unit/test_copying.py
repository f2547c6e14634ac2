"""The two ends of `tfcluster cp`."""

from __future__ import annotations

import io
import sys
import tarfile

import pytest

from tfcluster.copying import End, copy_from, last_name, parse_end, parse_ends
from tfcluster.errors import TfclusterError, UsageError


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("worker-1:out", End("out", "worker-1")),
        ("my-role-0:/a b:c", End("/a b:c", "my-role-0")),
        ("./worker-1:out", End("./worker-1:out")),
        ("C:thing", End("C:thing")),
        ("plain", End("plain")),
    ],
)
def test_a_task_and_a_path_or_a_path_alone(text, end):
    assert parse_end(text) == end


@pytest.mark.parametrize("ends", [("a", "b"), ("ps-0:a", "ps-1:b"), ("ps-0:", "b")])
def test_one_end_is_in_a_task_and_has_a_path(ends):
    with pytest.raises(UsageError):
        parse_ends(*ends)


@pytest.mark.parametrize(
    ("path", "name"), [("a/b", "b"), ("a/b/", "b"), (".", "files"), ("..", "files"), ("/", "files")]
)
def test_a_copy_is_called_as_its_source_is(path, name):
    assert last_name(path) == name


@pytest.mark.parametrize("name", ["../outside", "/tmp/outside", "a/../../outside"])
def test_a_task_cannot_write_outside_the_folder_that_was_named(tmp_path, name):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        entry = tarfile.TarInfo(name)
        entry.size = 4
        tar.addfile(entry, io.BytesIO(b"evil"))
    (tmp_path / "evil.tar").write_bytes(made.getvalue())
    show = f"import sys; sys.stdout.buffer.write(open({str(tmp_path / 'evil.tar')!r}, 'rb').read())"
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(TfclusterError):
        copy_from([sys.executable, "-c", show], End("x", "worker-0"), str(target))
    assert list(target.iterdir()) == []
    assert not (tmp_path / "outside").exists()
