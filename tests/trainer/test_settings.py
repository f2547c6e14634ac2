"""The table of settings, and the flags and checks that come from it."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest
from ruamel.yaml import YAML

from tests.trainer.harness import ROOT, trainer_env
from trainer.errors import SettingsError
from trainer.settings import Settings, load_table, parse_arguments, settings_from


def test_the_table_and_the_dataclass_have_the_same_fields_in_the_same_order() -> None:
    table = [row["name"] for row in load_table()]
    assert table == [field.name for field in dataclasses.fields(Settings)]


@pytest.mark.parametrize("row", load_table(), ids=lambda row: str(row["name"]))
def test_every_row_says_what_it_is_and_has_a_default_that_passes(row: dict[str, object]) -> None:
    assert set(row) <= {"name", "type", "default", "choices", "min", "max", "exclusive_min", "help"}
    assert row["type"] in ("int", "float", "bool", "str", "ints", "floats")
    assert str(row["help"]).endswith(".")
    if row["default"] is not None:
        settings_from({str(row["name"]): row["default"]})


def test_flags_become_settings_of_their_types() -> None:
    settings = parse_arguments(
        ["--hidden", "300,100", "--learning_rate", "0.1", "--tensorboard=false", "--seed", "7"]
    ).settings
    assert settings.hidden == (300, 100)
    assert settings.learning_rate == 0.1
    assert settings.tensorboard is False
    assert settings.seed == 7
    assert settings.batch_size == 100


def test_each_optimizer_has_a_learning_rate_of_its_own_unless_one_is_given() -> None:
    assert settings_from({"optimizer": "adam"}).learning_rate == 0.001
    assert settings_from({"optimizer": "adam", "learning_rate": 0.2}).learning_rate == 0.2


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--batch_size", "0"], "argument --batch_size: 0 is less than 1"),
        (["--batch_size", "ten"], "argument --batch_size: expected an integer, not 'ten'"),
        (["--learning_rate", "0"], "argument --learning_rate: 0.0 is not greater than 0"),
        (["--learning_rate", "nan"], "argument --learning_rate: nan is not a finite number"),
        (["--momentum", "2"], "argument --momentum: 2.0 is greater than 1"),
        (["--hidden", "10,,5"], "argument --hidden: expected integers, comma-separated, not"),
        (["--tensorboard", "maybe"], "argument --tensorboard: expected true or false, not 'maybe'"),
        (["--model", "mpl"], "'mpl' is not one of softmax, mlp, cnn; did you mean mlp?"),
        (["--batchsize", "5"], "unknown argument --batchsize; did you mean --batch_size?"),
        (["--batch", "5"], "unknown argument --batch"),
        (["stray"], "unknown argument stray"),
    ],
)
def test_a_bad_flag_is_refused_in_words(flags: list[str], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_arguments(flags)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"batch_sise": 1}, "unknown setting batch_sise; did you mean batch_size?"),
        ({"batch_size": "100"}, "batch_size: expected an integer, not '100'"),
        ({"batch_size": True}, "batch_size: expected an integer, not True"),
        ({"weights_name": "../x"}, "weights_name: a file name without folders, please"),
        ({"tensorboard": 1}, "tensorboard: expected true or false, not 1"),
    ],
)
def test_a_bad_value_is_refused_in_words(values: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        settings_from(values)
    assert str(caught.value) == message


def test_folder_no_and_the_launchers_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFCLUSTER_LOGDIR", "/somewhere/logs")
    assert str(parse_arguments([]).logdir) == "/somewhere/logs"
    assert str(parse_arguments(["--folder_no", "3"]).logdir) == "/somewhere/logs/3"
    assert str(parse_arguments(["--logdir", "/other"]).logdir) == "/other"
    assert parse_arguments([]).checkpoints is None


def test_a_mistake_is_one_line_and_exit_2_and_needs_no_tensorflow() -> None:
    script = (
        "import sys; sys.modules['tensorflow'] = sys.modules['numpy'] = None\n"
        "from trainer.__main__ import main; sys.exit(main(['--epochs', 'x']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=trainer_env(), capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr == "trainer: error: argument --epochs: expected an integer, not 'x'\n"


def test_the_demo_uses_settings_that_exist() -> None:
    text = (ROOT / "examples" / "mnist.yaml").read_text(encoding="utf-8")
    spec = YAML(typ="safe").load(text.replace("{{ workers | default(2) }}", "2"))
    settings = settings_from(spec["train"])
    assert (settings.algorithm, settings.model) == ("hogwild", "mlp")
