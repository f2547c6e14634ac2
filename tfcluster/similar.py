"""Did you mean …?"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


def snake_case(word: str) -> str:
    """`nodeSelector`, `node-selector` and `Node_Selector` are all `node_selector`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", word).replace("-", "_").lower()


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` was probably meant to be, or None."""
    choices = sorted(known)
    folded = {snake_case(choice): choice for choice in choices}
    wanted = snake_case(word)
    if wanted in folded:
        return folded[wanted]
    for name, choice in folded.items():
        # Two letters swapped in a short word are far apart by difflib's measure: `sp`, `ps`.
        if sorted(name) == sorted(wanted):
            return choice
    for match in difflib.get_close_matches(wanted, list(folded), n=1, cutoff=0.6):
        return folded[match]
    return None


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """The hint that names the closest known word, or None."""
    match = closest(word, known)
    return None if match is None else f'did you mean "{match}"?'
