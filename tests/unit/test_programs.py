"""From a program to a spec: what is chosen, what is written, and that it means the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.test_inspection import ARGPARSE, COORDINATOR, KERAS
from tfcluster.cli import main
from tfcluster.commands.run import variables, without_dashes
from tfcluster.errors import MissingFile, UsageError
from tfcluster.programs import (
    Choice,
    Wanted,
    choose,
    describe,
    find_program,
    inspected,
    job_name,
    program_spec,
    spec_text,
)
from tfcluster.spec.loader import load_spec, load_spec_text


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TFCLUSTER_BACKEND", raising=False)
    made = tmp_path / "project"
    (made / "src").mkdir(parents=True)
    monkeypatch.chdir(made)
    return made


def spec_for(folder: Path, *words: str, backend: str | None = None, **wanted: object) -> dict:
    asked = Wanted(words=words, **wanted)
    program = find_program(words, folder, asked.code)
    choice = choose(asked, inspected(program))
    return program_spec(asked, program, choice, base=folder, backend=backend)


@pytest.mark.parametrize(
    ("source", "strategy", "roles"),
    [
        ("print()", None, {"worker": 1}),
        (KERAS, "multi-worker", {"worker": 2}),
        (COORDINATOR, "coordinator", {"chief": 1, "ps": 1, "worker": 2}),
        (ARGPARSE, "between-graph", {"ps": 1, "worker": 2}),
    ],
)
def test_a_look_at_the_program_chooses_strategy_and_roles(folder, source, strategy, roles):
    (folder / "train.py").write_text(source)
    spec = spec_for(folder, "train.py", "--lr", "0.1")
    assert spec.get("strategy") == strategy
    assert {name: role.get("replicas", 1) for name, role in spec["roles"].items()} == roles
    assert spec["command"] == ["python", "train.py", "--lr", "0.1"]
    assert load_spec_text(spec_text(spec)).spec.effective_strategy == (strategy or "between-graph")


def test_flags_of_old_programs_are_filled_in(folder):
    (folder / "train.py").write_text(ARGPARSE)
    spec = spec_for(folder, "train.py")
    assert spec["args"][0] == "--ps_hosts=$(PS_HOSTS)" and len(spec["args"]) == 4


def test_what_is_asked_for_wins_over_the_look(folder):
    (folder / "train.py").write_text(KERAS)
    asked = {"strategy": "coordinator", "workers": 3, "ps": 2, "gpus": 1, "evaluator": True}
    spec = spec_for(folder, "train.py", **asked)
    assert spec["strategy"] == "coordinator"
    assert spec["roles"] == {
        "chief": {},
        "ps": {"replicas": 2},
        "worker": {"replicas": 3, "gpus": 1},
        "evaluator": {},
    }
    assert spec_for(folder, "train.py", ps=1)["roles"]["ps"] == {"replicas": 1}


def test_the_program_s_own_modules_are_looked_at_too(folder):
    (folder / "train.py").write_text("from own import model\n")
    (folder / "own").mkdir()
    (folder / "own" / "__init__.py").write_text("")
    (folder / "own" / "model.py").write_text(KERAS)
    traits = inspected(find_program(["train.py"], folder, None))
    assert str(traits.evidence) == "MultiWorkerMirroredStrategy in own/model.py:3"


@pytest.mark.parametrize(
    ("words", "code", "command", "sent", "name"),
    [
        (["src/train.py", "-x"], None, ["python", "train.py", "-x"], "src", "train"),
        (["src/train.py"], ".", ["python", "src/train.py"], ".", "train"),
        (["sh", "-c", "echo"], None, ["sh", "-c", "echo"], ".", "sh"),
        (["/usr/bin/env"], None, ["/usr/bin/env"], ".", "env"),
        (["./tool.sh"], None, ["./tool.sh"], ".", "tool"),
    ],
)
def test_what_is_started_and_which_folder_is_sent(folder, words, code, command, sent, name):
    (folder / "src" / "train.py").write_text("")
    (folder / "tool.sh").write_text("")
    spec = spec_for(folder, *words, code=code)
    assert (spec["command"], spec["code"], spec["name"]) == (command, sent, name)


def test_a_program_that_is_not_there_is_an_error_with_its_neighbour_s_name(folder):
    (folder / "train.py").write_text("")
    with pytest.raises(MissingFile, match=r"there is no tran\.py") as missing:
        find_program(["tran.py"], folder, None)
    assert missing.value.hint == 'did you mean "train.py"?'
    with pytest.raises(UsageError, match="is a folder"):
        find_program(["src"], folder, None)
    with pytest.raises(UsageError, match="run what"):
        find_program([], folder, None)
    with pytest.raises(UsageError, match="is not in"):
        find_program(["train.py"], folder, "src")


@pytest.mark.parametrize(
    ("title", "name"),
    [("Train_MNIST", "train-mnist"), ("3d", "d"), ("__main__", "main"), ("…", "program")],
)
def test_a_job_s_name_is_made_of_the_program_s(title, name):
    assert job_name(title) == name


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.text("a 1:-#'\"{}%$&*!é\n\\", max_size=8), max_size=4))
def test_any_argument_is_in_the_spec_as_it_was_typed(words):
    choice = Choice(None, {"worker": {}}, (), "")
    asked = Wanted(words=("echo", *words))
    program = find_program(asked.words, Path("/"), None)
    text = spec_text(program_spec(asked, program, choice, base=Path("/"), backend=None))
    assert load_spec_text(text).spec.command == ["echo", *words]


@pytest.mark.parametrize(
    "word", ["{{ 7 }}", "{% raw %}", "{# x #}", "{{{", "$(INDEX)", "{% endraw %}"]
)
def test_an_argument_is_no_template(word):
    spec = {"name": "x", "command": ["echo", word], "roles": {"worker": {}}}
    assert load_spec_text(spec_text(spec)).spec.command == ["echo", word]


def test_one_line_says_what_was_chosen_and_why(folder):
    (folder / "train.py").write_text(KERAS)
    choice = choose(Wanted(("train.py",)), inspected(find_program(["train.py"], folder, None)))
    assert describe(choice) == (
        "Runs as multi-worker: 2 workers (MultiWorkerMirroredStrategy in train.py:3)."
        " Otherwise: --strategy"
    )


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["train.py", "--", "--lr"], ["train.py", "--lr"]),
        (["--", "sh", "--", "x"], ["sh", "--", "x"]),
        (["train.py", "a", "--", "b"], ["train.py", "a", "--", "b"]),
    ],
)
def test_the_first_two_dashes_only_separate(words, meant):
    assert without_dashes(words) == meant


def test_variables_are_given_or_passed_on(monkeypatch):
    monkeypatch.setenv("SEED", "7")
    assert variables(["A=b=c", "SEED"]) == {"A": "b=c", "SEED": "7"}
    with pytest.raises(UsageError, match="not set here"):
        variables(["ABSENT_HERE"])


def test_print_spec_prints_a_spec_and_starts_nothing(folder, capsys):
    (folder / "train.py").write_text(KERAS)
    assert main(["run", "--print-spec", "--workers", "3", "train.py", "--lr", "0.1"]) == 0
    loaded = load_spec_text(capsys.readouterr().out)
    assert loaded.spec.roles["worker"].replicas == 3
    assert loaded.spec.code is not None
    assert not (folder.parent / "home").exists()


def test_save_writes_a_spec_that_up_takes_and_overwrites_no_other(folder, capsys, monkeypatch):
    (folder / "train.py").write_text("")
    monkeypatch.setattr("tfcluster.commands.run.carry_out", lambda loaded, **_: 0)
    assert main(["run", "--save", "src/cluster.yaml", "train.py"]) == 0
    spec = load_spec(folder / "src" / "cluster.yaml").spec
    assert spec.code is not None and spec.code.folder == ".."
    assert main(["run", "--save", "src/cluster.yaml", "train.py"]) == 0
    assert main(["run", "--save", "src/cluster.yaml", "train.py", "other"]) == 2
    assert "is there already" in capsys.readouterr().err


def test_what_a_spec_may_not_say_run_may_not_either(folder, capsys):
    (folder / "train.py").write_text("")
    assert main(["run", "--name", "No Name", "train.py"]) == 2
    assert main(["run", "--backend", "docker", "--live", "train.py"]) == 2
    assert "code.live" in capsys.readouterr().err
