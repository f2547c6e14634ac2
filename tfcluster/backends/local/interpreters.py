"""Which interpreter `python` means here: the one on PATH, unless tfcluster's own serves better."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from tfcluster.interpreter import (
    IN_ENVIRONMENT,
    ON_PATH,
    OWN_HAS_TENSORFLOW,
    OWN_NOT_ON_PATH,
    Interpreter,
)
from tfcluster.launch.plan import read_env_files
from tfcluster.launch.python import PYTHON_NAMES
from tfcluster.plan import RolePlan

PROBE = "import importlib.util, sys; sys.exit(importlib.util.find_spec('tensorflow') is None)"
PROBE_SECONDS = 20.0
ENVIRONMENTS = ("VIRTUAL_ENV", "CONDA_PREFIX")


def with_interpreter(role: RolePlan, before: RolePlan | None) -> RolePlan:
    """The role with the interpreter that its `python` stands for.

    A role that has not changed keeps the one that it runs under, whatever PATH is now.
    """
    name = role.argv[0]
    if name not in PYTHON_NAMES:
        return role
    if before is not None and before.digest == role.digest and before.interpreter is not None:
        chosen = before.interpreter
    else:
        chosen = find_interpreter(name, role_environment(role))
    return replace(role, argv=(chosen.path, *role.argv[1:]), interpreter=chosen)


def role_environment(role: RolePlan) -> dict[str, str]:
    """What decides which program a name stands for: our environment, and what the spec adds."""
    try:
        given = read_env_files(role.env_files)
    except (OSError, ValueError):  # said when the program starts
        given = {}
    return {**os.environ, **given, **role.env}


def find_interpreter(name: str, env: Mapping[str, str]) -> Interpreter:
    """The interpreter to use for `name` in this environment."""
    found = shutil.which(name, path=env.get("PATH"))
    return choose(name, found, env, sys.executable, lacks_tensorflow)


def choose(
    name: str,
    found: str | None,
    env: Mapping[str, str],
    own: str,
    lacking: Callable[[str], bool],
) -> Interpreter:
    """The one on PATH, unless there is none or it lacks the TensorFlow that our own has.

    An environment that is active was chosen by the user: it is never passed over.
    """
    if found is None:
        return Interpreter(name, own, OWN_NOT_ON_PATH)
    if any(is_inside(found, env.get(variable)) for variable in ENVIRONMENTS):
        return Interpreter(name, found, IN_ENVIRONMENT)
    if Path(found).parent != Path(own).parent and lacking(found):
        return Interpreter(name, own, OWN_HAS_TENSORFLOW, found)
    return Interpreter(name, found, ON_PATH)


def is_inside(path: str, folder: str | None) -> bool:
    return bool(folder) and Path(str(folder)) in Path(path).parents


@functools.lru_cache
def lacks_tensorflow(found: str) -> bool:
    """Whether our own interpreter has TensorFlow, and the other has not or does not even run."""
    from importlib.util import find_spec

    if find_spec("tensorflow") is None:
        return False
    try:
        done = subprocess.run(
            [found, "-c", PROBE],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PROBE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return False
    except OSError:
        return True
    return done.returncode != 0
