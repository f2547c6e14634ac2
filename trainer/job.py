"""What a run is made from."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from trainer.algorithms import Algorithm
from trainer.cluster import ClusterInfo
from trainer.data import Mnist
from trainer.settings import Settings


def _run_id() -> str:
    return os.environ.get("TFCLUSTER_RUN") or uuid.uuid4().hex


def _attempt() -> int:
    text = os.environ.get("TFCLUSTER_ATTEMPT", "0")
    return int(text) if text.isdecimal() else 0


@dataclass(frozen=True)
class Job:
    """Settings, cluster, algorithm, data, and the folders to write to."""

    settings: Settings
    cluster: ClusterInfo
    algorithm: Algorithm
    data: Mnist
    logdir: Path | None = None
    checkpoints: Path | None = None
    run: str = field(default_factory=_run_id)  # checkpoints carry it: whose are they?
    attempt: int = field(default_factory=_attempt)  # how often this task has died before
