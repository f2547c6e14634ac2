"""`--set`, typed by the schema."""

from __future__ import annotations

import pytest

from tests.unit.specs import SETTINGS, SMALL, load, report
from tfcluster.spec import train
from tfcluster.spec.model import JobSpec, json_schema
from tfcluster.spec.overrides import apply_overrides


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "SETTINGS_PATH", SETTINGS)


def with_set(*overrides: str, text: str = SMALL) -> JobSpec:
    return load(text, overrides=overrides).spec


def test_a_number_is_a_number() -> None:
    spec = with_set("roles.worker.gpus=4", "train.learning_rate=0.1", "roles.worker.cpu=2")
    assert spec.roles["worker"].gpus == 4
    assert spec.roles["worker"].cpu == 2.0
    assert spec.train is not None and spec.train.chosen == {"learning_rate": 0.1}


@pytest.mark.parametrize("value", ["4", "true", "hello world", "a=b", "{x: 1}", "", "~", " x "])
def test_a_string_stays_what_it_is(value: str) -> None:
    spec = with_set(f"env.A={value}", f"logdir={value or 'x'}")
    assert (spec.env["A"], spec.logdir) == (value, value or "x")


def test_lists_and_mappings_are_written_as_yaml() -> None:
    spec = with_set("roles.ps={replicas: 2}", "local.gpus=[0, 1]", "restarts={limit: 1, on: [7]}")
    assert spec.roles["ps"].replicas == 2
    assert spec.local.gpus == [0, 1]
    assert (spec.restarts.limit, spec.restarts.on) == (1, [7])


def test_success_is_a_word_or_a_list() -> None:
    text = "name: a\ncommand: [x]\nroles: {reader: , learner: , scorer: }\n"
    assert with_set("success=learner", text=text).success == "learner"
    assert with_set("success=[learner,scorer]", text=text).success == ["learner", "scorer"]
    assert with_set("success[0]=learner", text=text).success == ["learner"]
    assert with_set("success=null", text=text + "success: all").success is None
    both = with_set("roles.reader.serves=true", "success=all", text=text)
    assert both.success_roles == ("learner", "scorer")
    shown = report(text, overrides=["success=[learner,skorer]"])
    assert 'success: there is no role "skorer"\n  --> --set success=[learner,skorer]' in shown
    assert 'did you mean "scorer"? the roles are learner, reader, scorer' in shown


def test_null_removes() -> None:
    text = "name: a\ntrain: {}\nroles: {worker: , ps: }\nenv: {A: b}\ndeadline: 3\n"
    spec = with_set("roles.ps=null", "env.A=null", "deadline=null", "shm=null", text=text)
    assert (list(spec.roles), spec.env, spec.deadline) == (["worker"], {}, None)


def test_the_last_one_wins_and_all_win_over_the_file() -> None:
    text = SMALL.replace("worker: {}", "worker: {gpus: 1}")
    assert (
        with_set("roles.worker.gpus=2", "roles.worker.gpus=3", text=text).roles["worker"].gpus == 3
    )


def test_list_items() -> None:
    text = SMALL + "volumes: [{source: a, target: /a}]\n"
    spec = with_set("volumes[0].target=/b", "volumes.1={source: c, target: /c}", text=text)
    assert [volume.target for volume in spec.volumes] == ["/b", "/c"]
    assert with_set("volumes[0]=null", text=text).volumes == []


def test_keys_with_dots() -> None:
    spec = with_set(
        "kubernetes.node_selector.kubernetes.io/arch=amd64",
        'kubernetes.pod_template.metadata."a.b/c=d"=1',
    )
    assert spec.kubernetes.node_selector == {"kubernetes.io/arch": "amd64"}
    assert spec.kubernetes.pod_template == {"metadata": {"a.b/c=d": 1}}


def test_a_section_that_is_empty_in_the_file_can_be_set() -> None:
    assert with_set("docker.network=lab", text=SMALL + "docker:\n").docker.network == "lab"
    assert with_set("restarts.on=[1]", text=SMALL + "restarts: 5\n").restarts.limit == 5


@pytest.mark.parametrize(
    ("override", "message", "hint"),
    [
        ("roles.worker.replicas=four", 'expected an integer, got "four"', None),
        ('roles.worker.replicas="4"', 'expected an integer, got "4"', "remove the quotes: 4"),
        ("roles.worker.replicsa=4", 'unknown key "replicsa"', 'did you mean "replicas"?'),
        ("rolse.worker.gpus=4", 'unknown key "rolse"', 'did you mean "roles"?'),
        ("train.epohcs=4", 'unknown key "epohcs"', 'did you mean "epochs"?'),
        ("train.algorithm=hogwlid", 'got "hogwlid"', 'did you mean "hogwild"?'),
        ("tensorboard=maybe", 'expected true or false, got "maybe"', None),
        ("roles.wroker=null", "there is nothing to remove", 'did you mean "worker"?'),
        ("name.x=1", 'unknown key "x"', None),
        ("volumes[3].target=/x", "the list has 0 items, counted from 0", None),
        ("local.gpus=[1", '"[" is opened here and never closed', 'close it with "]"'),
        ("deadline=", "expected a value after =", "deadline=null removes it"),
        ("=4", "expected KEY=VALUE", "for example roles.worker.replicas=4"),
        ("epochs=4", 'unknown key "epochs"', '"epochs" belongs under train'),
    ],
)
def test_a_mistake_names_the_flag(override: str, message: str, hint: str | None) -> None:
    said = report(SMALL, overrides=[override])
    assert message in said
    assert f"  --> --set {override}" in said
    assert "cluster.yaml" not in said
    assert hint is None or f"hint: {hint}" in said


def test_backend_is_compared_with_the_known_ones() -> None:
    said = report(SMALL, backend="kubernets")
    assert "  --> --backend kubernets" in said
    assert 'did you mean "kubernetes"?' in said


def test_the_data_is_not_changed_by_edits() -> None:
    data = {"roles": {"worker": {"gpus": 1}}}
    edited = apply_overrides(data, ["roles.worker.gpus=2"], "docker", json_schema())
    assert data == {"roles": {"worker": {"gpus": 1}}}
    assert edited.data == {"roles": {"worker": {"gpus": 2}}, "backend": "docker"}
