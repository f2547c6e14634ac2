"""`init` writes files that work, and never overwrites any unasked."""

from __future__ import annotations

import ast
import json

import pytest

from tfcluster.cli import main
from tfcluster.commands.init import job_name
from tfcluster.spec.loader import load_spec


def test_the_file_is_valid_and_named_after_its_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["init", "mnist"]) == 0
    assert capsys.readouterr().out == (
        "Created cluster.yaml (1 ps, 2 workers, local processes). Next: tfcluster up\n"
    )
    loaded = load_spec(tmp_path / "mnist" / "cluster.yaml")
    assert loaded.spec.name == "mnist"
    assert {name: role.replicas for name, role in loaded.spec.roles.items()} == {
        "ps": 1,
        "worker": 2,
    }
    assert loaded.warnings == ()


def test_the_first_line_leads_editors_to_a_schema_that_is_there(tmp_path):
    assert main(["init", str(tmp_path / "job")]) == 0
    first = (tmp_path / "job" / "cluster.yaml").read_text().splitlines()[0]
    marker, _, name = first.partition("$schema=")
    assert marker == "# yaml-language-server: "
    schema = json.loads((tmp_path / "job" / name).read_text())
    assert "roles" in schema["properties"]


def test_a_program_of_ones_own_comes_with_a_spec_that_runs_it(tmp_path):
    assert main(["init", str(tmp_path / "own"), "--program"]) == 0
    spec = load_spec(tmp_path / "own" / "cluster.yaml").spec
    assert spec.command is not None and spec.command[-1] == "train.py"
    ast.parse((tmp_path / "own" / "train.py").read_text())


def test_nothing_is_overwritten_without_force(tmp_path, capsys):
    target = tmp_path / "cluster.yaml"
    target.write_text("mine")
    assert main(["init", str(tmp_path)]) == 2
    assert "--force" in capsys.readouterr().err
    assert target.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["cluster.yaml"]
    assert main(["init", str(tmp_path), "--force"]) == 0
    assert target.read_text() != "mine"


@pytest.mark.parametrize(
    ("folder", "name"),
    [("mnist", "mnist"), ("My Job_2", "my-job-2"), ("2024", "job-2024"), ("", "job"), ("-", "job")],
)
def test_a_folder_name_becomes_a_job_name(folder, name):
    assert job_name(folder) == name
    assert len(job_name("x" * 100)) <= 40
