"""Lines with a meaning in a task's output: progress and results of programs, states of launchers.

A program's lines are its own word and are checked for type and size. A launcher's state lines carry
a proof made with the run's key, so that nothing that a program happens to print is taken for one.
"""

from __future__ import annotations

import json
import math
from typing import Any, Dict, Mapping, Optional, Union

from tfcluster.launch.mac import is_same, mac

PROGRESS = b"tfcluster-progress "
RESULT = b"tfcluster-result "
STATE = b"tfcluster-state "
UNENDED = b"\x1etfcluster-unended"  # before a line end that is ours, not the program's
PROOF_LENGTH = 32  # hexadecimal digits: 128 bits
MOST_OBJECT = 1 << 16
MOST_DEPTH = 8  # of objects and lists in each other
MOST_DIGITS = 19  # of an integer that is kept exactly
LARGEST_COUNT = 1 << 63
NOT_FINITE = ("nan", "inf", "-inf")  # numbers that JSON does not have, as they are written instead


def parse_said(text: bytes) -> Optional[Dict[str, Any]]:
    """The object that a program printed as progress or result; None unless it is a sound one."""
    if len(text) > MOST_OBJECT:
        return None
    try:
        value = json.loads(text.decode("utf-8", "replace"), parse_int=parse_integer)
    except (ValueError, RecursionError):
        return None
    return sound(value) if isinstance(value, dict) else None


def parse_integer(digits: str) -> Union[int, float]:
    """An integer; one with more digits than any count has becomes a float, which may be inf."""
    return int(digits) if len(digits) <= MOST_DIGITS else float(digits)


def sound(value: Dict[str, Any]) -> Dict[str, Any]:
    """The same object as strict JSON can hold it, not too deep; see `strict`."""
    return {strict_text(str(key)): strict(item, MOST_DEPTH) for key, item in value.items()}


def strict(value: Any, depth: int) -> Any:
    """The same value as strict JSON can hold it; null for what is deeper than `depth`.

    Numbers that JSON does not have become the strings in NOT_FINITE, so that they can be shown.
    Halves of characters (lone surrogates) are replaced.
    """
    if isinstance(value, str):
        return strict_text(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return strict_number(value)
    if depth < 0:
        return None
    if isinstance(value, dict):
        return {strict_text(str(key)): strict(item, depth - 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict(item, depth - 1) for item in value]
    return value


def strict_text(text: str) -> str:
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def strict_number(value: Union[int, float]) -> Union[int, float, str]:
    if isinstance(value, int) and abs(value) <= LARGEST_COUNT:
        return value
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    return number if math.isfinite(number) else str(number)


def state_proof(key: bytes, task: str, body: bytes) -> bytes:
    """What shows that a state line was written by a launcher of this run."""
    words = b"state\0" + task.encode() + b"\0" + body
    return mac(key, words).hex()[:PROOF_LENGTH].encode()


def state_line(key: bytes, task: str, state: Mapping[str, Any]) -> bytes:
    """A line `tfcluster-state <proof> {...}` without its line end."""
    body = json.dumps(state).encode()
    return STATE + state_proof(key, task, body) + b" " + body


def read_state(key: bytes, task: str, line: bytes) -> Optional[Dict[str, Any]]:
    """The state that a genuine line carries; None for every other line."""
    if not line.startswith(STATE):
        return None
    proof, _, body = line[len(STATE) :].partition(b" ")
    if not is_same(proof, state_proof(key, task, body)):
        return None
    value = json.loads(body)
    return value if isinstance(value, dict) else None
