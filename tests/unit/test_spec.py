"""Golden specs, and the spec's data."""

from __future__ import annotations

import argparse
import json
import os
import shlex
from pathlib import Path

import pytest

from tests.unit.specs import GOLDEN, SETTINGS, SMALL, load, problems, report
from tfcluster.errors import MissingFile, SpecProblems
from tfcluster.spec import train
from tfcluster.spec.loader import LoadedSpec, load_spec_text
from tfcluster.spec.model import JobSpec, json_schema

UPDATE = os.environ.get("UPDATE_GOLDEN") == "1"


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "SETTINGS_PATH", SETTINGS)


def load_golden(path: Path) -> LoadedSpec:
    text = path.read_text(encoding="utf-8")
    parser = argparse.ArgumentParser()
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--var", action="append", default=[])
    parser.add_argument("--backend")
    first = text.split("\n")[0]
    flags = parser.parse_args(shlex.split(first.partition("flags:")[2]))
    variables = dict(pair.split("=", 1) for pair in flags.var)
    return load_spec_text(
        text, name=path.name, variables=variables, overrides=flags.set, backend=flags.backend
    )


def compare(actual: str, expected: Path) -> None:
    if UPDATE:
        expected.write_text(actual, encoding="utf-8")
    assert actual == expected.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("valid-*.yaml")), ids=lambda p: p.stem)
def test_a_valid_spec_is_understood(path: Path) -> None:
    spec = load_golden(path).spec
    dumped = json.dumps(spec.model_dump(mode="json", exclude_unset=True), indent=2)
    compare(dumped + "\n", path.with_suffix(".json"))


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("invalid-*.yaml")), ids=lambda p: p.stem)
def test_an_invalid_spec_is_told_everything(path: Path) -> None:
    with pytest.raises(SpecProblems) as caught:
        load_golden(path)
    assert caught.value.exit_code == 2
    compare(caught.value.text() + "\n", path.with_suffix(".txt"))


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("valid-*.yaml")), ids=lambda p: p.stem)
def test_a_spec_survives_json(path: Path) -> None:
    spec = load_golden(path).spec
    for unset in (True, False):
        again = JobSpec.model_validate(json.loads(spec.model_dump_json(exclude_unset=unset)))
        assert again == spec


def test_defaults() -> None:
    spec = load(SMALL).spec
    assert spec.backend == "local"
    assert spec.restarts.limit == 3
    assert (spec.start_timeout, spec.deadline, spec.stop_grace) == (120.0, None, 10.0)
    assert (spec.ports.tensorflow, spec.ports.control) == (2222, 2223)
    assert spec.kubernetes.gpu_resource == "nvidia.com/gpu"
    assert spec.roles["worker"].replicas == 1


def test_a_spec_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load(SMALL).spec.name = "other"


def test_roles_come_in_one_order() -> None:
    text = "name: a\ncommand: [x]\nroles: {zeta: , worker: , beta: , evaluator: , ps: , chief: }"
    assert list(load(text).spec.roles) == ["chief", "ps", "worker", "evaluator", "beta", "zeta"]


def test_train_passes_on_only_what_was_set() -> None:
    spec = load(SMALL.replace("{}", "{shuffle: false, hidden: [30, 20], batch_size: 50}", 1)).spec
    assert spec.train is not None
    assert spec.train.flags() == ["--hidden", "30,20", "--batch_size", "50", "--shuffle", "false"]


@pytest.mark.parametrize(
    ("roles", "success"),
    [
        ("chief: , worker: ", "chief"),
        ("worker: , ps: ", "worker"),
        ("mine: , yours: ", "mine yours"),
        ("mine: , ps: ", "ps mine"),
        ("reader: {serves: true}, learner: ", "learner"),
        ("worker: {serves: true}, learner: , scorer: ", "learner scorer"),
        ("chief: {serves: true}, worker: ", "worker"),
        ("worker: {serves: false}, evaluator: ", "worker"),
    ],
)
def test_success_follows_the_roles(roles: str, success: str) -> None:
    spec = load(f"name: a\ncommand: [x]\nroles: {{{roles}}}").spec
    assert spec.success_roles == tuple(success.split())


@pytest.mark.parametrize(
    ("written", "success"),
    [
        ("chief", "chief"),
        ("workers", "worker"),
        ("worker", "worker"),
        ("data", "data"),
        ("[data, workers, chief, worker]", "chief worker data"),
        ("all", "chief worker data"),
    ],
)
def test_success_names_any_role_or_several(written: str, success: str) -> None:
    roles = "roles: {data: , chief: , ps: , worker: , cache: {serves: true}}"
    spec = load(f"name: a\ncommand: [x]\nsuccess: {written}\n{roles}").spec
    assert spec.success_roles == tuple(success.split())


def test_a_role_called_like_a_word_of_the_rule_can_be_named() -> None:
    text = "name: a\ncommand: [x]\nroles: {all: , workers: , other: }\nsuccess: "
    assert load(text + "workers").spec.success_roles == ("workers",)
    assert load(text + "[all]").spec.success_roles == ("all",)
    assert load(text + "all").spec.success_roles == ("all", "other", "workers")


@pytest.mark.parametrize(
    ("success", "message"),
    [
        ("3", "expected a role's name or a list of them, got 3"),
        ("[worker, {a: 1}]", "expected a role's name or a list of them, got a mapping"),
        ("[]", "expected at least one role, got an empty list"),
        ('""', 'expected a role\'s name or a list of them, got ""'),
    ],
)
def test_success_takes_a_word_or_a_list_of_words(success: str, message: str) -> None:
    assert problems(SMALL + f"success: {success}") == [f"4:10 success: {message}"]


def test_the_trainers_servers_cannot_decide() -> None:
    text = "name: a\ntrain: {}\nroles: {worker: , ps: }\nsuccess: [worker, ps]\n"
    assert problems(text) == [
        "4:19 success: ps never succeeds: with train it serves until the job is over"
    ]


def test_a_wrong_role_is_not_called_unknown_as_well() -> None:
    text = "name: a\ncommand: [x]\nroles: {learner: 3, reader: {serves: 1}}\nsuccess: "
    assert len(problems(text + "learner")) == 2
    assert len(problems(text + "[reader]")) == 2


@pytest.mark.parametrize(
    ("algorithm", "roles", "strategy"),
    [
        ("allreduce", "worker: ", "multi-worker"),
        ("coordinator", "chief: , worker: , ps: ", "coordinator"),
        ("hogwild", "worker: , ps: ", "between-graph"),
    ],
)
def test_strategy_follows_the_algorithm(algorithm: str, roles: str, strategy: str) -> None:
    text = f"name: a\ntrain: {{algorithm: {algorithm}}}\nroles: {{{roles}}}"
    assert load(text).spec.effective_strategy == strategy


def test_the_trainer_picks_its_algorithm_by_the_roles() -> None:
    assert load(SMALL).spec.algorithm == "single"
    assert load("name: a\ntrain: {}\nroles: {worker: , ps: }").spec.algorithm == "hogwild"


def test_a_role_may_have_its_own_restarts() -> None:
    spec = load("name: a\ncommand: [x]\nroles: {worker: {restarts: 0}, ps: }").spec
    assert (spec.restarts_of("worker").limit, spec.restarts_of("ps").limit) == (0, 3)


def test_sizes_keep_how_they_were_written() -> None:
    memory = load(SMALL, overrides=["roles.worker.memory=1.5Gi"]).spec.roles["worker"].memory
    assert memory == "1.5Gi"
    assert memory is not None and memory.bytes == 1610612736


@pytest.mark.parametrize(
    ("written", "kept"), [("1.10", "1.10"), ("08080", "08080"), ("1e3", "1e3"), ("0x1F", "0x1F")]
)
def test_numbers_in_env_and_args_stay_as_written(written: str, kept: str) -> None:
    text = f"name: a\ncommand: [x]\nargs: [{written}]\nenv: {{A: {written}}}\nroles: {{worker: }}"
    spec = load(text).spec
    assert (spec.env["A"], spec.args) == (kept, [kept])


@pytest.mark.parametrize("word", ["no", "yes", "on", "off", "1:30", "2001-01-01", "1_000"])
def test_yaml_1_2_keeps_words_as_words(word: str) -> None:
    assert load(SMALL + f"env: {{A: {word}}}").spec.env["A"] == word


def test_a_missing_settings_table_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "SETTINGS_PATH", Path("nowhere/settings.json"))
    with pytest.raises(MissingFile, match="settings table is missing"):
        load(SMALL)


def test_mistakes_do_not_hide_each_other() -> None:
    """A wrong type, a wrong key and a wrong combination, in one file."""
    text = "name: a\ntrain: {algorithm: hogwild}\nroles: {worker: {replicas: x, gpu: 1}}\n"
    assert problems(text) == [
        "2:20 train.algorithm hogwild needs a ps role",
        '3:28 roles.worker.replicas: expected an integer, got "x"',
        '3:31 unknown key "gpu"',
    ]


def test_a_mistake_brings_no_consequences_along() -> None:
    """`roles.ps` is wrong, not absent; `trian` was meant to be there."""
    text = "name: a\ntrain: {algorithm: hogwild}\nroles: {worker: , ps: 3}\n"
    assert problems(text) == ["3:23 roles.ps: expected a mapping, got 3"]
    assert problems("name: a\ntrian: {}\nroles: {worker: }\n") == ['2:1 unknown key "trian"']


def test_an_index_behind_a_removed_item_is_not_trusted() -> None:
    text = SMALL + "volumes:\n- 3\n- {source: a, target: /x}\n- {source: b, target: /x}\n"
    assert problems(text) == ["5:3 volumes[0]: expected a mapping, got 3"]


def test_names_may_have_63_characters_with_role_and_index() -> None:
    name = "a" * (63 - len("-worker-0"))
    assert problems(SMALL.replace("small", name)) == []
    assert "has 64 characters, 63 are allowed" in report(SMALL.replace("small", name + "a"))


def test_warns_of_secrets_and_of_roles_that_look_misspelt() -> None:
    text = "name: a\ncommand: [x]\nenv: {HF_TOKEN: abc, TOKENIZERS_PARALLELISM: 1}\n"
    warnings = load(text + "roles: {workers: {env: {PASSWORD: x}}, reader: }").warnings
    assert [warning.split(":")[0] for warning in warnings] == [
        "env.HF_TOKEN",
        "roles.workers.env.PASSWORD",
        "roles.workers",
    ]
    assert not any("abc" in warning for warning in warnings)


def test_every_key_is_described() -> None:
    schema = json_schema()
    for part in [schema, *schema["$defs"].values()]:
        for name, field in part.get("properties", {}).items():
            assert field.get("description", "").endswith("."), (part["title"], name)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    json.dumps(schema)
