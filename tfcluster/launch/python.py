"""The interpreter that runs a program, and the module that it could not find."""

from __future__ import annotations

import os
import re
import shutil
import sys
from typing import Iterable, List, Mapping, Optional

PYTHON_NAMES = ("python", "python3")
MISSING_MODULE = re.compile(
    r"^(?:.*: )?(?:ModuleNotFoundError: )?No module named '?([A-Za-z_][\w.]*)'?(?:[; ]|$)"
)
LOOKED_AT = 3  # lines from the end; an exception's last line may have a note below it


def program_python(argv: List[str], env: Mapping[str, str]) -> Optional[str]:
    """The path of the interpreter that this command starts; None if it starts something else."""
    if not re.fullmatch(r"python[\d.]*", os.path.basename(argv[0])):
        return None
    return shutil.which(argv[0], path=env.get("PATH")) or argv[0]


def with_python(argv: List[str], env: Mapping[str, str]) -> List[str]:
    """The command; `python` is the interpreter that we run under where PATH has none."""
    if argv[0] in PYTHON_NAMES and not shutil.which(argv[0], path=env.get("PATH")):
        return [sys.executable or argv[0], *argv[1:]]
    return argv


def missing_module(lines: Iterable[str]) -> Optional[str]:
    """The module whose absence ended a program, from the last lines that it printed."""
    for line in reversed(list(lines)[-LOOKED_AT:]):
        found = MISSING_MODULE.match(line)
        if found:
            return found.group(1)
    return None
