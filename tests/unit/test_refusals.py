"""What the system refuses is said as what it is: no traceback, no "this is a bug in tfcluster"."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.records import write_run
from tfcluster.cli import main
from tfcluster.refusals import explain

SPEC = "{name: toy, command: [sleep, '60'], roles: {worker: {replicas: 1}}}"
HOME = Path("/state")


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cluster.yaml").write_text(SPEC)
    return tmp_path


@pytest.mark.parametrize(
    ("error", "words", "hint"),
    [
        (
            OSError(errno.ENOSPC, "No space left", "/state/a"),
            "/state/a: No space",
            "free some room",
        ),
        (OSError(errno.EDQUOT, "Quota exceeded", "/x"), "/x: Quota exceeded", "free some room"),
        (OSError(errno.EROFS, "Read-only", "/state/a"), "/state/a: Read-only", "TFCLUSTER_HOME"),
        (OSError(errno.EACCES, "Denied", b"/state"), "/state: Denied", "make it writable"),
        (OSError(errno.EMFILE, "Too many files", "/x"), "/x: Too many files", "ulimit -n"),
        (BlockingIOError(errno.EAGAIN, "Try again"), "no process can be started", "ulimit -u"),
        (OSError(errno.EIO, "I/O error", "/x"), "/x: I/O error", "check the disk"),
        (OSError(errno.ENOENT, "No such", "/state/a"), "/state/a: No such", "tfcluster down"),
        (OSError(errno.ENOSPC, "No space left"), "No space left", "free some room"),
    ],
)
def test_an_error_of_the_surroundings_names_the_file_and_what_to_do(error, words, hint):
    found = explain(error, HOME)
    assert found is not None and found.hint is not None
    assert words in found.message and hint in found.hint


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, "No such file", "/elsewhere/a"),
        ConnectionRefusedError(errno.ECONNREFUSED, "refused"),
        OSError("no number"),
    ],
)
def test_any_other_error_may_be_a_mistake_of_ours(error):
    assert explain(error, HOME) is None


def a_file(path: Path) -> None:
    path.write_text("")


def a_link_to_nothing(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


def a_link_to_itself(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize("make", [a_file, a_link_to_nothing, a_link_to_itself])
@pytest.mark.parametrize("inside", ["", "state/tfcluster"])
def test_a_state_folder_that_cannot_be_one_is_named(folder, monkeypatch, capsys, make, inside):
    make(folder / "home")
    monkeypatch.setenv("TFCLUSTER_HOME", str(folder / "home" / inside))
    for command in (["up", "-d"], ["status"], ["ps", "-a"], ["down"], ["down", "--all"]):
        code = main(command)
        err = capsys.readouterr().err
        assert "bug" not in err and "Traceback" not in err
        assert code in (0, 1, 3) and (code == 0 or "hint: " in err), (command, err)
        if command[0] == "up":
            assert code == 1 and f"error: {folder / 'home'}: " in err
            assert "TFCLUSTER_HOME" in err


def test_a_link_to_a_folder_is_a_state_folder(folder, capsys):
    (folder / "elsewhere").mkdir()
    (folder / "home").symlink_to(folder / "elsewhere")
    write_run("mnist")
    assert main(["ps", "-a"]) == 0
    assert "mnist" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["logdir", "checkpoints"])
def test_a_folder_of_the_spec_that_cannot_be_written_is_the_users_error(folder, capsys, name):
    (folder / "taken").write_text("")
    assert main(["up", "-d", "--set", f"{name}=taken/deeper"]) == 2
    err = capsys.readouterr().err
    assert f"error: {name}: taken/deeper cannot be written: {folder / 'taken'} is not a f" in err
    assert "hint: choose another" in err
    assert not (folder / "home" / "jobs").exists() or not list(folder.glob("home/jobs/*/runs/*"))


@pytest.mark.parametrize("arguments", ["logs --job mnist", "status --job mnist", "--help"])
def test_a_full_disk_behind_the_output_is_said_once(arguments):
    write_run("mnist", logs={"worker-0.0": ["x" * 1000] * 9})
    command = f"{sys.executable} -m tfcluster {arguments} > /dev/full"
    done = subprocess.run(["sh", "-c", command], env=os.environ, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ") and "No space left on device" in done.stderr
    assert "hint: " in done.stderr and "bug" not in done.stderr
    assert "ignored" not in done.stderr


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_a_crash_report_is_the_users_alone(folder, monkeypatch, capsys, umask):
    monkeypatch.setattr("tfcluster.commands.version.tensorflow_version", lambda: 1 / 0)
    before = os.umask(umask)
    try:
        assert main(["version"]) == 1
    finally:
        os.umask(before)
    for path in ((folder / "home"), *(folder / "home").rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert list((folder / "home").rglob("*.txt"))
