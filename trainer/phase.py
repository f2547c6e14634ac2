"""What this task is at, for whoever watches: importing, waiting for ps-0, training, saving."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

_now: str | None = None


def enter(phase: str | None, **more: object) -> None:
    """Tell the launcher, if there is one; None if there is nothing to tell any more."""
    global _now
    _now = phase
    if "TFCLUSTER_TASK" in os.environ:
        print(f"tfcluster-progress {json.dumps({'phase': phase, **more})}", flush=True)


def wait_for(tasks: Iterable[str]) -> None:
    """Say that these tasks keep this one waiting."""
    names = list(tasks)
    enter(f"waiting for {', '.join(names)}", waits_for=names)


@contextmanager
def during(phase: str) -> Iterator[None]:
    """Be at something for a moment, and then at what was before."""
    before = _now
    enter(phase)
    yield
    enter(before)
