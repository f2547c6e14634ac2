"""Settings: one table (`settings.json`) becomes flags, checks and a frozen `Settings`.

A row of the table has `name`, `type` (int, float, bool, str, ints, floats), `default`, `help`, and
where they make sense `choices`, `min`, `max` and `exclusive_min`.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from trainer.errors import SettingsError

TABLE_PATH = Path(__file__).with_name("settings.json")
OPTIMIZERS = {"downpour": "adagrad"}  # of every other algorithm: sgd
LEARNING_RATES = {"sgd": 0.5, "momentum": 0.05, "adagrad": 0.05, "adam": 0.001}


@dataclasses.dataclass(frozen=True)
class Settings:
    """Every row of the table as an attribute; a test holds the two to each other."""

    algorithm: str | None
    model: str
    hidden: tuple[int, ...]
    activation: str
    dropout: float
    init: str
    optimizer: str
    learning_rate: float
    momentum: float
    learning_rates: tuple[float, ...] | None
    local_learning_rate: float | None
    window: int | None
    n_push: int | None
    n_fetch: int | None
    backups: int | None
    rho: float | None
    batch_size: int
    epochs: int
    steps: int | None
    target_accuracy: float | None
    max_seconds: float | None
    seed: int
    data_order: str
    data_dir: str | None
    data_url: str | None
    validation_size: int
    eval_every: int
    log_format: str
    log_every: int
    log_seconds: float
    tensorboard: bool
    checkpoint_seconds: float
    checkpoint_steps: int
    keep_checkpoints: int
    resume: str
    weights_name: str
    saved_model: bool
    folder_no: int | None
    steps_per_call: int
    threads: int | None
    start_seconds: float
    recovery_seconds: float
    synchronous: bool
    devices: int | None
    networks: int | None
    sweep_learning_rates: tuple[float, ...] | None
    sweep_hidden: tuple[int, ...] | None
    sweep_seeds: tuple[int, ...] | None
    visible_devices: str | None
    gpu_memory_fraction: float | None
    gpu_growth: bool
    soft_placement: bool
    log_placement: bool


@dataclasses.dataclass(frozen=True)
class Arguments:
    """What the command line says: the settings, where to write, and who this task is."""

    settings: Settings
    logdir: Path | None
    checkpoints: Path | None
    ps_hosts: str | None
    worker_hosts: str | None
    job_name: str | None
    task_index: int | None
    debug: bool


def load_table() -> list[dict[str, Any]]:
    """The rows of settings.json, in order."""
    rows: list[dict[str, Any]] = json.loads(TABLE_PATH.read_text(encoding="utf-8"))
    return rows


def settings_from(values: Mapping[str, Any] | None = None) -> Settings:
    """Settings from Python values, checked like flags; what is not given has its default."""
    values = dict(values or {})
    rows = {row["name"]: row for row in load_table()}
    for name in values:
        if name not in rows:
            raise SettingsError(f"unknown setting {name}{_did_you_mean(name, rows)}")
    checked = {}
    for name, row in rows.items():
        value = values.get(name, row["default"])
        if isinstance(value, (list, tuple)):
            value = tuple(value)
        for item in value if isinstance(value, tuple) else (value,):
            problem = None if item is None else _problem(row, item)
            if problem:
                raise SettingsError(f"{name}: {problem}")
        checked[name] = value
    if Path(checked["weights_name"]).name != checked["weights_name"]:
        raise SettingsError("weights_name: a file name without folders, please")
    if checked["optimizer"] is None:
        checked["optimizer"] = OPTIMIZERS.get(checked["algorithm"], "sgd")
    if checked["learning_rate"] is None:
        checked["learning_rate"] = LEARNING_RATES[checked["optimizer"]]
    return Settings(**checked)


def parse_arguments(argv: Sequence[str]) -> Arguments:
    """Read the flags of `python -m trainer`; a bad one ends in SettingsError."""
    parser = OneLineParser(
        prog="trainer", allow_abbrev=False, description="Train a network on MNIST."
    )
    table = parser.add_argument_group("settings (the same names as in `train:` of cluster.yaml)")
    for row in load_table():
        table.add_argument(
            f"--{row['name']}",
            type=_reader(row),
            metavar="|".join(row.get("choices", [])) or KINDS[row["type"]].metavar,
            help=f"{row['help']}{_shown(row['default'])}".replace("%", "%%"),
        )
    place = parser.add_argument_group("where to write")
    place.add_argument("--logdir", help="folder for metrics, TensorBoard and result.json")
    place.add_argument("--checkpoints", help="folder for checkpoints and final weights")
    task = parser.add_argument_group("who this task is (else TF_CONFIG says it)")
    task.add_argument("--ps_hosts", help="host:port of every ps, comma-separated")
    task.add_argument("--worker_hosts", help="host:port of every worker, comma-separated")
    task.add_argument("--job_name", help="ps or worker")
    task.add_argument("--task_index", type=_reader({"type": "int", "min": 0}), help="0, 1, ...")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    given = vars(parser.parse_args(list(argv)))
    names = [row["name"] for row in load_table()]
    settings = settings_from({n: given[n] for n in names if given[n] is not None})
    return Arguments(
        settings=settings,
        logdir=_folder(given["logdir"], "TFCLUSTER_LOGDIR", settings.folder_no),
        checkpoints=_folder(given["checkpoints"], "TFCLUSTER_CHECKPOINTS", None),
        **{n: given[n] for n in ("ps_hosts", "worker_hosts", "job_name", "task_index", "debug")},
    )


class OneLineParser(argparse.ArgumentParser):
    """An ArgumentParser whose every complaint is one line."""

    def error(self, message: str) -> NoReturn:
        prefix = "unrecognized arguments: "
        if message.startswith(prefix):
            flag = message[len(prefix) :].split()[0].split("=")[0]
            known = [option for option in self._option_string_actions if option.startswith("--")]
            message = f"unknown argument {flag}{_did_you_mean(flag, known)}"
        raise SettingsError(message)


def _did_you_mean(word: str, known: Sequence[str] | Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _folder(flag: str | None, variable: str, number: int | None) -> Path | None:
    """The folder from the flag or the launcher's variable, with `folder_no` below it."""
    name = flag or os.environ.get(variable)
    if not name:
        return None
    folder = Path(name).absolute()
    return folder if number is None else folder / str(number)


def _reader(row: Mapping[str, Any]) -> Callable[[str], Any]:
    """A function from a flag's text to its checked value."""
    kind = KINDS[row["type"]]

    def read(text: str) -> Any:
        values = []
        for part in text.split(",") if kind.several else [text]:
            try:
                values.append(kind.read(part))
            except ValueError:
                raise argparse.ArgumentTypeError(f"expected {kind.words}, not {text!r}") from None
            problem = _problem(row, values[-1])
            if problem:
                raise argparse.ArgumentTypeError(problem)
        return tuple(values) if kind.several else values[0]

    return read


def _read_bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


@dataclasses.dataclass(frozen=True)
class Kind:
    """A `type` of the table."""

    read: Callable[[str], Any]
    accepts: tuple[type, ...]
    words: str
    metavar: str
    several: bool = False


KINDS = {
    "int": Kind(int, (int,), "an integer", "N"),
    "float": Kind(float, (int, float), "a number", "X"),
    "bool": Kind(_read_bool, (bool,), "true or false", "true|false"),
    "str": Kind(str, (str,), "text", "TEXT"),
    "ints": Kind(int, (int,), "integers, comma-separated", "N,N", several=True),
    "floats": Kind(float, (int, float), "numbers, comma-separated", "X,X", several=True),
}


def _problem(row: Mapping[str, Any], value: Any) -> str | None:
    """What is wrong with one value, in words, or None."""
    kind = KINDS[row["type"]]
    # Python counts True as an integer; a person does not.
    if not isinstance(value, kind.accepts) or isinstance(value, bool) != (row["type"] == "bool"):
        return f"expected {kind.words}, not {value!r}"
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value} is not a finite number"
    if row.get("choices") and value not in row["choices"]:
        hint = _did_you_mean(str(value), row["choices"])
        return f"{value!r} is not one of {', '.join(row['choices'])}{hint}"
    if row.get("min") is not None and value < row["min"]:
        return f"{value} is less than {row['min']}"
    if row.get("exclusive_min") is not None and value <= row["exclusive_min"]:
        return f"{value} is not greater than {row['exclusive_min']}"
    if row.get("max") is not None and value > row["max"]:
        return f"{value} is greater than {row['max']}"
    return None


def _shown(default: Any) -> str:
    if default is None:  # the help says what happens then
        return ""
    if isinstance(default, list):
        return f" Default: {','.join(map(str, default))}."
    return f" Default: {str(default).lower()}."
