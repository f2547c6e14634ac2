"""pip, wherever requirements have to be installed: found, and its failures in a few lines."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from tfcluster.errors import MissingError, TfclusterError
from tfcluster.requirements import Requirements, failed_requirement

SHOWN_LINES = 12


def pip_wheel() -> Path | None:
    """The pip that comes with Python: a file that any Python can run, installed or not."""
    found = importlib.util.find_spec("ensurepip")
    if found is None or found.origin is None:
        return None
    wheels = sorted(Path(found.origin).parent.glob("_bundled/pip-*.whl"))
    return wheels[-1] if wheels else None


def find_pip() -> list[str]:
    """The words that make an interpreter of this machine pip."""
    wheel = pip_wheel()
    if wheel is not None:
        return [f"{wheel}/pip"]
    found = importlib.util.find_spec("pip")
    if found is not None and found.origin is not None:
        return [str(Path(found.origin).parent)]
    raise MissingError(
        f"requirements: {sys.executable} has neither pip nor ensurepip",
        hint="install one of them (on Debian: apt install python3-venv)",
    )


def pip_failed(wanted: Requirements, said: Sequence[str]) -> TfclusterError:
    """What pip could not install, in its own words."""
    lines = [line for line in said if line.strip()]
    blamed = failed_requirement(wanted, lines)
    what = f'"{blamed}" of {wanted.source}' if blamed else wanted.source
    return TfclusterError(
        f"requirements: {what} cannot be installed",
        evidence=[f"  {line}" for line in lines[-SHOWN_LINES:]],
        hint="is the name right, and the package index reachable from there?",
    )
