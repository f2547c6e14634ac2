"""The bundled trainer in its image, under the real command line."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request

import pytest

from tests.launchers import free_port, until
from tests.runs.cli import ROOT, Cli
from tests.runs.data_service import assert_data_service_ends_by_itself

EXAMPLE = str(ROOT / "examples" / "mnist.yaml")


@pytest.fixture(scope="module")
def image(request):
    """The trainer's image, built as a person builds it."""
    if not os.environ.get("TFCLUSTER_DOCKER_TESTS"):
        pytest.skip("needs a Docker engine")
    folder = request.getfixturevalue("tmp_path_factory").mktemp("build")
    built = Cli(folder, folder / "home")("build", timeout=1200)
    assert built.returncode == 0, built.stderr
    return built.stdout.strip()


@pytest.fixture
def tfcluster(tmp_path, engine, image):
    folder = tmp_path / "work"
    folder.mkdir()
    cli = Cli(folder, tmp_path / "home")
    yield cli
    cli("down", "--all")
    assert cli.left_behind() == []


def running(engine) -> list[str]:
    found = engine.api.containers(filters={"label": "io.tfcluster.job=mnist"})
    return [item["Names"][0] for item in found]


def test_the_example_trains_as_it_does_locally_and_leaves_only_logs(tfcluster, engine):
    up = tfcluster("up", EXAMPLE, "--backend", "docker")
    assert up.returncode == 0, up.stderr
    assert "test accuracy 0.9" in up.stderr
    status = tfcluster.status()
    assert status["result"]["accuracy"] >= 0.95
    assert {task["exitCode"] for task in status["tasks"]} == {0}
    assert running(engine) == []
    before = tfcluster("logs", "worker-1", "-o", "raw", "--job", "mnist").stdout
    assert "Total Time" in before and before.endswith("done\n")
    assert tfcluster("down", "--job", "mnist").returncode == 0
    assert tfcluster("logs", "worker-1", "-o", "raw", "--job", "mnist").stdout == before
    gone = tfcluster("down", "--job", "mnist", "--volumes", "--yes")
    assert "Deleted volume tfcluster-mnist-" in gone.stderr


def test_a_second_up_of_a_running_job_changes_nothing_and_commands_reach_it(tfcluster, engine):
    args = ("up", EXAMPLE, "--backend", "docker", "--set", "train.epochs=1000", "-d")
    assert tfcluster(*args).returncode == 0
    tfcluster.wait_for(has_progress, "steps")
    ids = {
        item["Id"] for item in engine.api.containers(filters={"label": "io.tfcluster.job=mnist"})
    }
    again = tfcluster(*args)
    assert "unchanged" in again.stderr, again.stderr
    now = {
        item["Id"] for item in engine.api.containers(filters={"label": "io.tfcluster.job=mnist"})
    }
    assert now == ids
    inside = tfcluster("exec", "worker-1", "--", "python3", "-c", "import os; print(os.getuid())")
    assert (inside.returncode, inside.stdout) == (0, "1000\n")
    readonly = tfcluster("exec", "worker-1", "--", "touch", "/opt/tfcluster/x")
    assert readonly.returncode != 0 and "Read-only" in readonly.stderr
    assert tfcluster("restart", "worker-1").returncode == 0
    tfcluster.wait_for(lambda s: s["tasks"][2]["restarts"] == 1, "the restart")
    board = tfcluster.start("tensorboard")
    try:
        url = board.stdout.readline().strip()
        until(lambda: b"TensorBoard" in fetch(url), "TensorBoard to answer", timeout=60)
    finally:
        board.send_signal(2)
        board.communicate(timeout=30)
    scaled = tfcluster("scale", "worker=3")
    assert scaled.returncode == 0, scaled.stderr
    tfcluster.wait_for(lambda s: len(s["tasks"]) == 4, "the fourth task")
    down = tfcluster("down")
    assert down.returncode == 0, down.stderr
    assert engine.api.containers(all=True, filters={"label": "io.tfcluster.tensorboard"}) == []


def has_progress(status) -> bool:
    return any((task["progress"] or {}).get("step", 0) > 50 for task in status["tasks"])


def fetch(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return answer.read()
    except OSError:
        return b""


def test_the_image_says_what_it_is_and_is_no_bigger_than_promised(engine, image):
    found = engine.api.inspect_image(image)
    assert found["Config"]["User"] == "1000:1000"
    assert found["Config"]["Labels"]["org.opencontainers.image.title"] == "tfcluster trainer"
    assert found["Config"]["Labels"]["org.opencontainers.image.revision"] == image.split(":")[1]
    assert found["Size"] < 1200 << 20


def test_the_image_needs_no_network_and_no_writable_root(image):
    argv = ["docker", "run", "--rm", "--read-only", "--network", "none", "--cap-drop", "ALL"]
    argv += ["--tmpfs", "/tmp", "--volume", "/output", image, "--steps", "20"]
    done = subprocess.run([*argv, "--logdir", "/output"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Test-Accuracy" in done.stdout


def test_an_image_of_ones_own_is_two_lines(tfcluster, engine, image):
    folder = tfcluster.folder
    (folder / "Dockerfile").write_text(f"FROM {image}\nCOPY train.py /app/\n")
    (folder / "train.py").write_text(
        "import json, os, sys\n"
        "print('hello from', json.loads(os.environ['TF_CONFIG'])['task'], sys.argv[1:])\n"
    )
    build = ["docker", "build", "-q", "-t", "tfcluster-test/own:1", str(folder)]
    subprocess.run(build, check=True, capture_output=True)
    spec = {
        "name": "own",
        "backend": "docker",
        "image": "tfcluster-test/own:1",
        "command": ["python", "/app/train.py", "$(WORKER_HOSTS)"],
        "roles": {"worker": {"replicas": 2}},
    }
    (folder / "cluster.yaml").write_text(json.dumps(spec))
    up = tfcluster("up")
    assert up.returncode == 0, up.stderr
    assert "'index': 1} ['own-worker-0:2222,own-worker-1:2222']" in up.stdout
    engine.api.remove_image("tfcluster-test/own:1", force=True)


def test_build_has_a_dry_run_and_is_quick_the_second_time(tfcluster, image):
    dry = tfcluster("build", "--gpu", "--tag", "example.com/it:1", "--push", "--dry-run")
    assert dry.returncode == 0
    assert "TENSORFLOW=tensorflow[and-cuda]" in dry.stdout and "push example.com/it:1" in dry.stdout
    again = tfcluster("build")
    assert again.stdout.strip() == image and "there already" in again.stderr


def test_a_push_to_nowhere_says_what_docker_said(tfcluster, engine):
    name = f"localhost:{free_port()}/me/it:1"
    try:
        pushed = tfcluster("build", "--tag", name, "--push")
    finally:
        engine.api.remove_image(name)
    assert pushed.returncode == 1
    assert f"error: {name} cannot be pushed\n  Docker says: " in pushed.stderr
    assert "connection refused" in pushed.stderr


def test_up_builds_the_image_if_it_is_missing_and_says_so(tfcluster, engine, image):
    engine.api.remove_image(image, force=True)
    up = tfcluster("up", EXAMPLE, "--backend", "docker", "--set", "train.steps=20", timeout=1200)
    assert up.returncode == 0, up.stderr
    assert f"Building the trainer's image {image}" in up.stderr


def test_a_tf_data_service_ends_when_its_trainer_has_finished(tfcluster, image):
    own = ("--backend", "docker", "--set", f"image={image}", "--set", "code=.")
    assert_data_service_ends_by_itself(tfcluster, *own)
