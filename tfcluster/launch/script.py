"""The script that an interpreter was told to run, where it is not there."""

from __future__ import annotations

import os
import re
import shutil
from typing import Optional, Sequence

PYTHON_COMMAND = re.compile(r"python[\d.]*")
SHELLS = ("sh", "bash", "dash", "ksh", "zsh")
NO_SCRIPT = {"python": "cm", "shell": "csoO"}  # letters of options after which none is named
WITH_VALUE = ("-W", "-X")  # of Python
SCRIPT_EXITS = (2, 126, 127)  # what interpreters end with if they cannot open their script


def missing_script(argv: Sequence[str], folder: Optional[str]) -> Optional[str]:
    """The path of the script if this command names one that does not exist; None if in doubt."""
    name = os.path.basename(argv[0])
    kind = "python" if PYTHON_COMMAND.fullmatch(name) else "shell" if name in SHELLS else None
    script = first_word(argv[1:], NO_SCRIPT[kind]) if kind else None
    if script is None or (kind == "shell" and shutil.which(script)):
        return None
    path = os.path.join(folder or os.getcwd(), script)
    return None if os.path.exists(path) else path


def first_word(words: Sequence[str], none_after: str) -> Optional[str]:
    """The first word that is no option; None if an option says that none is a script."""
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in WITH_VALUE:
            skip = True
        elif not word.startswith("-"):
            return word
        elif word == "-" or word.startswith("--") or set(word[1:]) & set(none_after):
            return None
    return None
