"""What quick commands may not import. Time is measured elsewhere; this says why it is short."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.unit.records import write_run

HEAVY = ("tensorflow", "kubernetes", "docker", "pydantic", "jinja2", "ruamel", "rich", "psutil")


CALL = "from tfcluster.cli import main; code = main(sys.argv[1:])"


def imported(tmp_path, *arguments: str, cwd=None, does: str = CALL) -> set[str]:
    """The top-level modules that a call has imported when it ends."""
    code = (
        f"import sys; code = 0; {does}; "
        "print('MODULES', *{name.partition('.')[0] for name in sys.modules}); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "TFCLUSTER_HOME": str(tmp_path)},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("MODULES ")[2].split())


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["up", "--help"], ["version"]])
def test_help_and_version_import_nothing_heavy(tmp_path, arguments):
    assert not imported(tmp_path, *arguments) & set(HEAVY)


@pytest.mark.parametrize("arguments", [["status"], ["status", "-o", "json"], ["ps"], ["logs"]])
def test_looking_at_a_job_imports_nothing_heavy(tmp_path, monkeypatch, arguments):
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path))
    write_run("mnist")
    assert not imported(tmp_path, *arguments, "--job", "mnist") & set(HEAVY)


def test_the_job_of_an_unchanged_spec_is_found_without_reading_it_as_yaml(tmp_path, monkeypatch):
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path / "home"))
    spec = tmp_path / "cluster.yaml"
    spec.write_text("name: mnist\n")
    write_run("mnist", spec=spec)
    assert not imported(tmp_path / "home", "status", cwd=tmp_path) & set(HEAVY)


def test_the_package_itself_imports_nothing_heavy_and_knows_its_functions(tmp_path):
    found = imported(tmp_path, does="import tfcluster; tfcluster.__version__")
    assert not found & {*HEAVY, "typer"}
    called = imported(tmp_path, does="import tfcluster; tfcluster.up, tfcluster.Job")
    assert "typer" in called and not called & set(HEAVY)
