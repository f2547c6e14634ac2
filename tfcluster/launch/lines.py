"""Lines with a meaning in a task's output: progress and results of programs, states of launchers.

A program's lines are its own word and are checked for type and size. A launcher's state lines carry
a proof made with the run's key, so that nothing that a program happens to print is taken for one.
"""

from __future__ import annotations

import json
import math
from typing import Any, Dict, Mapping, Optional

from tfcluster.launch.mac import is_same, mac

PROGRESS = b"tfcluster-progress "
RESULT = b"tfcluster-result "
STATE = b"tfcluster-state "
UNENDED = b"\x1etfcluster-unended"  # before a line end that is ours, not the program's
PROOF_LENGTH = 32  # hexadecimal digits: 128 bits
MOST_OBJECT = 1 << 16


def parse_said(text: bytes) -> Optional[Dict[str, Any]]:
    """The object that a program printed as progress or result; None unless it is a sound one."""
    if len(text) > MOST_OBJECT:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return sound(value) if isinstance(value, dict) else None


def sound(value: Dict[str, Any]) -> Dict[str, Any]:
    """The same object with numbers that JSON has: nan and infinities become null."""
    return {str(key): sound_value(item, 0) for key, item in value.items()}


def sound_value(value: Any, depth: int) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 1 << 63:
        return None
    if depth > 8:
        return None
    if isinstance(value, dict):
        return {str(key): sound_value(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [sound_value(item, depth + 1) for item in value]
    return value


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
