"""Every example of the zoo, started by `tfcluster up` as a person does, with fewer steps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runs.cli import ROOT, Cli
from trainer.algorithms import ALGORITHMS

pytestmark = [pytest.mark.tensorflow, pytest.mark.xdist_group("tensorflow")]

ZOO = sorted((ROOT / "examples" / "zoo").glob("*.yaml"))
# One worker costs half as much to start; where several belong to the point, there are several.
TOGETHER = {"sync-backups", "sync-rates"}
SHORT = ("--set", "train.steps=60", "--set", "train.model=softmax")
QUICK = {"sync", "easgd"}  # one that waits for the others and one that does not, for `make test`


@pytest.fixture
def tfcluster(tmp_path: Path) -> Iterator[Cli]:
    (tmp_path / "work").mkdir()
    cli = Cli(tmp_path / "work", tmp_path / "home")
    yield cli
    cli("down", "--all")
    assert cli.left_behind() == []


def test_the_whole_family_has_an_example() -> None:
    names = {path.stem for path in ZOO}
    family = {"single", "hogwild", "sync", "downpour", "downpour-sgd", "agn", "sagn", "dynsgd"}
    family |= {"easgd", "aeasgd", "aeamsgd"}
    assert family <= names & set(ALGORITHMS)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=() if path.stem in QUICK else pytest.mark.slow)
        for path in ZOO
    ],
)
def test_an_example_of_the_zoo_trains(tfcluster: Cli, path: Path) -> None:
    few = () if path.stem in TOGETHER | {"single"} else ("--var", "workers=1")
    up = tfcluster("up", str(path), *SHORT, *few)
    assert up.returncode == 0, up.stderr
    status = tfcluster.status()
    assert status["state"] == "succeeded"
    algorithm = "sync" if path.stem.startswith("sync-") else path.stem
    assert status["result"]["algorithm"] == algorithm
    assert status["result"]["accuracy"] >= 0.6
    assert 60 <= status["result"]["global_step"] <= 62
