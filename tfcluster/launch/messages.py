"""What launchers say to each other, checked field by field before it counts.

Upwards:   join   all that a new parent has to know        up     changes since then
           known  the verdict has arrived here             ask    what is every task doing?
           bye    we are leaving
Downwards: news   facts                                    answer to ask
           gone   we are leaving, with all that we know    full   try another parent
Both ways: beat   a sign of life
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

Message = Dict[str, Any]


def take_mapping(value: Any) -> Message:
    if not isinstance(value, dict):
        raise ValueError("expected an object")
    return value


def take_rank(text: str, size: int) -> int:
    rank = int(text)
    if not 0 <= rank < size:
        raise ValueError("no such task")
    return rank


def check_cause(value: Any) -> Message:
    """A cause of failure in which every field is what it has to be."""
    cause = take_mapping(value)
    lines = cause.get("lines")
    sound = (
        isinstance(cause.get("task"), str)
        and isinstance(cause.get("reason"), str)
        and isinstance(cause.get("kind", ""), str)
        and isinstance(cause.get("exitCode"), (int, type(None)))
        and isinstance(cause.get("time"), (int, float))
        and isinstance(lines, list)
        and all(isinstance(line, str) for line in lines)
    )
    if not sound:
        raise ValueError("this is no cause of failure")
    return cause


def check_verdict(value: Any) -> Message:
    """A verdict in which every field is what it has to be."""
    verdict = take_mapping(value)
    if verdict.get("state") == "succeeded":
        return {"state": "succeeded", "cause": None}
    if verdict.get("state") == "failed":
        return {"state": "failed", "cause": check_cause(verdict.get("cause"))}
    raise ValueError("this is no verdict")


def cause_order(cause: Message) -> Tuple[float, str]:
    return (float(cause["time"]), str(cause["task"]))


def is_earlier(cause: Message, other: Optional[Message]) -> bool:
    return other is None or cause_order(cause) < cause_order(other)


def is_better(verdict: Message, known: Message) -> bool:
    """Of two verdicts that hubs gave while they could not hear each other, one has to count."""
    if verdict["state"] != known["state"]:
        return bool(verdict["state"] == "failed")
    return verdict["state"] == "failed" and is_earlier(verdict["cause"], known["cause"])
