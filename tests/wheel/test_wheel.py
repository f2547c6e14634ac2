"""The wheel, installed alone in a fresh environment, does what a checkout does."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
pytestmark = [pytest.mark.wheel, pytest.mark.xdist_group("wheel")]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, ROOT],
        check=True,
    )
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def fresh(wheel, tmp_path_factory) -> Path:
    """The bin folder of an environment that has the wheel and its dependencies, nothing else."""
    venv = tmp_path_factory.mktemp("fresh") / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    # Without bytecode, of which most would never be used.
    install = [venv / "bin" / "pip", "install", "--quiet", "--no-compile", wheel]
    subprocess.run(install, check=True)
    return venv / "bin"


def test_it_holds_manifests_examples_and_the_data_set(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "tfcluster/_manifests/local/run.sh.j2" in names
    assert "tfcluster/_examples/mnist.yaml" in names
    assert "tfcluster/_images/trainer/Dockerfile" in names
    data = [name for name in names if name.startswith("trainer/data/") and name.endswith(".gz")]
    assert len(data) == 4
    assert not [name for name in names if name.startswith(("tests/", "docs/"))]


def test_a_program_runs_from_it(fresh, tmp_path):
    (tmp_path / "cluster.yaml").write_text(
        "name: w\ncommand: [sh, -c, 'echo hello $(TASK)']\nroles: {worker: {replicas: 2}}\n"
    )
    env = {**os.environ, "TFCLUSTER_HOME": str(tmp_path / "home")}
    env.pop("PYTHONPATH", None)
    up = subprocess.run(
        [fresh / "tfcluster", "up"], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert up.returncode == 0, up.stderr
    assert "worker-1 | hello worker-1" in up.stdout
    script = subprocess.run(
        [fresh / "tfcluster", "render"], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert script.returncode == 0, script.stderr
    assert script.stdout.startswith("#!/bin/sh")


def test_without_tensorflow_train_is_refused_with_the_command_that_installs_it(fresh, tmp_path):
    env = {**os.environ, "TFCLUSTER_HOME": str(tmp_path / "home")}
    env.pop("PYTHONPATH", None)
    subprocess.run([fresh / "tfcluster", "init"], cwd=tmp_path, env=env, check=True)
    up = subprocess.run(
        [fresh / "tfcluster", "up"], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert up.returncode == 3
    assert 'pip install "tfcluster[trainer]"' in up.stderr


@pytest.mark.tensorflow
def test_the_bundled_trainer_trains_from_it(fresh, tmp_path):
    found = importlib.util.find_spec("tensorflow")
    if found is None or found.origin is None:
        pytest.skip('needs TensorFlow: pip install "tfcluster[trainer]"')
    # TensorFlow is borrowed from this environment: installing it again takes minutes.
    env = {**os.environ, "TFCLUSTER_HOME": str(tmp_path / "home")}
    env["PYTHONPATH"] = str(Path(found.origin).parents[1])
    subprocess.run([fresh / "tfcluster", "init"], cwd=tmp_path, env=env, check=True)
    up = subprocess.run(
        [fresh / "tfcluster", "up", "--set", "train.epochs=1"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
    )
    assert up.returncode == 0, up.stderr
    assert "test accuracy" in up.stderr
