"""Where results are: the same data in a plan, a status and a history."""

from __future__ import annotations

import json
import shlex

import pytest

from tests.unit.kube import plan_of
from tests.unit.specs import load
from tfcluster import tables
from tfcluster.archive import Run, next_run
from tfcluster.backends import load_backend
from tfcluster.backends.docker.plan import plan as docker_plan
from tfcluster.backends.docker.results import results_of as docker_results
from tfcluster.backends.kubernetes.results import results_of as kubernetes_results
from tfcluster.backends.local.results import results_of as local_results
from tfcluster.events import JobStatus
from tfcluster.place import place_of
from tfcluster.results import Results, is_empty, place_text, places

ENGINE = "unix:///run/other.sock"
JOB = "name: one\nbackend: {}\nimage: mine:1\nroles: {{worker: {{command: [x]}}}}\n"
ONE = JOB.format("docker") + 'docker: {hosts: [{name: a, engine: "%s", address: 10.0.0.1}]}\n'


def on_docker(tmp_path, text: str, engine: str = ENGINE) -> dict[str, Results]:
    made = docker_plan(load(ONE % engine + text).spec, None, tmp_path)
    return {one.holds: one for one in docker_results(made, "7f3a")}


# -- Docker


def test_a_run_on_docker_has_a_volume_of_its_own(tmp_path):
    found = on_docker(tmp_path, "")
    volume = "tfcluster-one-7f3a"
    for holds, path in (("logdir", "/output"), ("checkpoints", "/output/checkpoints")):
        one = found[holds]
        assert (one.kind, one.name, one.path, one.host) == ("volume", volume, path, ENGINE)
    (only,) = places(found.values())
    assert place_text(only) == f"Docker volume {volume} (/output) on {ENGINE}"


@pytest.mark.parametrize(
    ("text", "logdir", "checkpoints"),
    [
        ("logdir: out", ("folder", "", "{base}/out"), ("volume", "tfcluster-one-7f3a", None)),
        ("logdir: /data/x", ("folder", "", "/data/x"), ("volume", "tfcluster-one-7f3a", None)),
        (
            "volumes: [{name: kept, target: /kept}]\nlogdir: /kept/a\ncheckpoints: /kept/b",
            ("volume", "kept", "/kept/a"),
            ("volume", "kept", "/kept/b"),
        ),
        (
            "volumes: [{source: /srv, target: /in}]\ncheckpoints: /in/c",
            ("volume", "tfcluster-one-7f3a", "/output"),
            ("folder", "", "/srv/c"),
        ),
    ],
)
def test_what_the_spec_names_is_where_results_are(tmp_path, text, logdir, checkpoints):
    found = on_docker(tmp_path, text)
    for holds, (kind, name, path) in (("logdir", logdir), ("checkpoints", checkpoints)):
        one = found[holds]
        assert (one.kind, one.name) == (kind, name)
        assert path is None or one.path == path.format(base=tmp_path)


@pytest.mark.parametrize(
    ("engine", "docker"),
    [
        ("unix:///var/run/docker.sock", "docker"),
        (ENGINE, f"docker --host {ENGINE}"),
        ("ssh://me@10.0.0.1", "docker --host ssh://me@10.0.0.1"),
        ("office", "docker --context office"),
    ],
)
def test_the_command_that_copies_a_volume_asks_the_right_engine(tmp_path, engine, docker):
    copy = on_docker(tmp_path, "", engine)["logdir"].copy
    assert copy == (
        f"c=$({docker} create -v tfcluster-one-7f3a:/output:ro mine:1 none)"
        f' && {docker} cp "$c":/output one-7f3a-a && {docker} rm $c'
    )


def test_a_folder_of_another_machine_says_whose_it_is_and_how_to_copy_it(tmp_path):
    one = on_docker(tmp_path, "logdir: /data/x", "ssh://me@10.0.0.1:2222")["logdir"]
    assert (one.kind, one.path, one.host) == ("folder", "/data/x", "ssh://me@10.0.0.1:2222")
    assert shlex.split(one.copy)[:4] == ["scp", "-r", "-P", "2222"]
    assert not one.is_here and not is_empty(one)


def test_on_several_hosts_the_one_of_the_writer_comes_first(tmp_path):
    text = JOB.format("docker") + (
        "docker: {hosts: [{name: a, engine: one, address: h1, tasks: []}, "
        "{name: b, engine: two, address: h2, tasks: [worker]}]}\n"
    )
    found = docker_results(docker_plan(load(text).spec, None, tmp_path), "7f3a")
    assert [one.host for one in places(found)] == ["two", "one"]


# -- Kubernetes


def in_cluster(text: str) -> dict[str, Results]:
    made = plan_of(JOB.format("kubernetes") + text)
    return {one.holds: one for one in kubernetes_results(made, "kind-tfc", "team")}


def test_without_a_volume_results_are_gone_with_the_pods():
    assert {one.kind for one in in_cluster("").values()} == {"task"}


def test_the_claim_of_the_job_is_named_with_the_folder_of_the_run():
    found = in_cluster("kubernetes: {storage: {size: 1Gi}}")
    logdir, run = found["logdir"], found["logdir"].path.rpartition("/")[2]
    assert (logdir.kind, logdir.name, logdir.path) == ("claim", "one-output", f"/output/{run}")
    assert found["checkpoints"].path == f"/output/{run}/checkpoints"
    words = f"claim one-output (/output/{run}), namespace team of context kind-tfc"
    assert place_text(logdir) == words


def test_a_claim_that_the_spec_names_is_found_too():
    one = in_cluster("volumes: [{claim: shared, target: /data}]\nlogdir: /data/x")["logdir"]
    assert (one.kind, one.name, one.path, one.namespace) == ("claim", "shared", "/data/x", "team")


def test_the_command_that_copies_a_claim_runs_a_pod_that_any_namespace_admits():
    copy = in_cluster("kubernetes: {storage: {size: 1Gi}}")["logdir"].copy
    words = shlex.split(copy)
    pod = json.loads(next(w for w in words if w.startswith("--overrides=")).partition("=")[2])
    (volume,) = pod["spec"]["volumes"]
    assert volume["persistentVolumeClaim"] == {"claimName": "one-output"}
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert copy.count("kubectl --context kind-tfc --namespace team ") == 4


# -- Everywhere


def test_results_survive_json():
    one = Results("logdir", "claim", "/output/7f3a", "one-output", "kind-tfc", "team", "kubectl …")
    status = JobStatus("one", "7f3a", "kubernetes", "succeeded", results=(one,))
    stored = json.loads(json.dumps(status.to_dict()))
    assert JobStatus.from_dict(stored) == status
    del stored["results"]  # as an older version wrote it
    assert JobStatus.from_dict(stored).results == ()
    for wrong in ({"kind": "cloud"}, {"kind": "folder", "path": 7}):
        with pytest.raises(ValueError, match="results"):
            Results.from_dict(wrong)


def test_a_folder_inside_another_is_not_named_twice(tmp_path):
    inside = local_results(str(tmp_path), str(tmp_path / "checkpoints"))
    assert tables.results_lines(inside, look=False) == [f"Results: {tmp_path}"]
    apart = local_results(str(tmp_path / "a"), str(tmp_path / "ab"))
    assert tables.results_lines(apart, look=False) == [
        f"Results (logdir): {tmp_path}/a",
        f"Results (checkpoints): {tmp_path}/ab",
    ]


def test_a_folder_without_a_file_is_said_to_be_empty(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    found = local_results(str(tmp_path), None)
    assert tables.results_lines(found) == [f"Results: {tmp_path} (nothing is there)"]
    (tmp_path / "checkpoints" / "weights.npz").touch()
    assert tables.results_lines(found) == [f"Results: {tmp_path}"]


@pytest.mark.parametrize("backend", ["local", "docker", "kubernetes"])
def test_a_plan_names_the_places_that_up_uses(tmp_path, monkeypatch, backend):
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path / "home"))
    text = JOB.format(backend).replace("image: mine:1\n" if backend == "local" else "\0", "")
    text = text.replace("[x]", "[python]")
    if backend == "kubernetes":
        text += "kubernetes: {storage: {size: 1Gi}}"
    spec = load(text).spec
    before = next_run(place_of("one", tmp_path))
    used = Run("one", "abc123", before.path.with_name("abc123"))
    shown, real = (
        load_backend(backend).results(load_backend(backend).plan(spec, run, tmp_path), run)
        for run in (before, used)
    )
    assert "RUN" in json.dumps([one.to_dict() for one in shown])
    named = json.dumps([one.to_dict() for one in shown]).replace("RUN", "abc123")
    assert json.loads(named) == [one.to_dict() for one in real]
