"""Fixtures of the trainer's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.trainer.harness import Cluster


@pytest.fixture(autouse=True)
def _no_surrounding_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TF_CONFIG", "TASK", "RUN", "ATTEMPT", "LOGDIR", "CHECKPOINTS"):
        monkeypatch.delenv(name if name == "TF_CONFIG" else f"TFCLUSTER_{name}", raising=False)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    """`cluster({"epochs": 2}, ps=1, worker=2)`: tasks that are gone when the test is over."""
    made: list[Cluster] = []

    def make(settings: dict[str, Any], **roles: int) -> Cluster:
        folder = tmp_path / f"cluster{len(made)}"
        folder.mkdir()
        made.append(Cluster(folder, settings, **roles))
        return made[-1]

    yield make
    for each in made:
        each.close()
