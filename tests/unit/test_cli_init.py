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


SCRIPTS = {
    "between-graph": "import argparse\np = argparse.ArgumentParser()\n"
    "p.add_argument('--ps_hosts')\np.add_argument('--worker_hosts')\n"
    "p.add_argument('--job_name')\np.add_argument('--task_index')\n",
    "multi-worker": "import tensorflow as tf\ns = tf.distribute.MultiWorkerMirroredStrategy()\n",
    "coordinator": "import tensorflow as tf\ns = tf.distribute.ParameterServerStrategy(None)\n",
}


@pytest.mark.parametrize("strategy", SCRIPTS)
def test_a_script_gets_a_spec_that_fits_it_and_stays_as_it_is(tmp_path, strategy):
    script = tmp_path / "train.py"
    script.write_text(SCRIPTS[strategy])
    assert main(["init", "--program", str(script), "--workers", "3", "--name", "mine"]) == 0
    spec = load_spec(tmp_path / "cluster.yaml").spec
    assert (spec.name, spec.effective_strategy) == ("mine", strategy)
    assert spec.command is not None and spec.command[-1] == "train.py"
    assert spec.roles["worker"].replicas == 3
    assert ("ps" in spec.roles) == (strategy != "multi-worker")
    flags = [argument.partition("=")[0] for argument in spec.args]
    expected = ["--ps_hosts", "--worker_hosts", "--job_name", "--task_index"]
    assert flags == (expected if strategy == "between-graph" else [])
    assert script.read_text() == SCRIPTS[strategy]


def test_a_script_that_is_not_there_is_an_error(tmp_path, capsys):
    assert main(["init", "--program", str(tmp_path / "trian.py")]) == 3
    assert "there is no trian.py" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("template", ["v1", "keras"])
def test_a_program_is_never_overwritten(tmp_path, template):
    (tmp_path / "train.py").write_text("mine")
    assert main(["init", str(tmp_path), "--template", template, "--force"]) == 2
    assert (tmp_path / "train.py").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_counts_backend_and_name_are_written_into_the_spec(tmp_path):
    options = ["--workers", "5", "--ps", "2", "--backend", "docker", "--name", "other"]
    assert main(["init", str(tmp_path), *options]) == 0
    spec = load_spec(tmp_path / "cluster.yaml").spec
    counts = {name: role.replicas for name, role in spec.roles.items()}
    assert (spec.name, spec.backend, counts) == ("other", "docker", {"ps": 2, "worker": 5})
    assert "# holds the parameters" in (tmp_path / "cluster.yaml").read_text()


def test_a_count_that_a_template_does_not_have_is_refused(tmp_path, capsys):
    assert main(["init", str(tmp_path / "x"), "--template", "keras", "--ps", "2"]) == 2
    assert "--ps" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_an_example_is_copied_and_a_wrong_name_lists_them(tmp_path, capsys):
    assert main(["init", str(tmp_path), "--example", "zoo/easgd", "--name", "mine"]) == 0
    assert load_spec(tmp_path / "cluster.yaml").spec.name == "mine"
    assert main(["init", str(tmp_path / "x"), "--example", "zoo/eesgd"]) == 3
    shown = capsys.readouterr().err
    assert "mnist" in shown and 'did you mean "zoo/easgd"?' in shown
