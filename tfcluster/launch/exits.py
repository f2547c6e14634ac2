"""How tasks end: exit codes, kinds of ends, the words for them, and the restart rule."""

from __future__ import annotations

import contextlib
import signal
from typing import Optional, Sequence

EXIT_KILLED = 119  # the program was killed for the last time; see task.Task.final_code
EXIT_PEER_FAILED = 120  # stopped because another task failed; never the first cause
EXIT_NOT_STARTED = 121  # a peer, or the program's own port, did not answer by start_timeout
EXIT_STALLED = 122  # it stood still for longer than stall_timeout
EXIT_DEADLINE = 124  # the job's deadline passed
EXIT_OUT_OF_MEMORY = 137

# How long a launcher that has ended stays for tasks that are being replaced just now, in seconds.
LINGER = 20.0

# Why a task is in its state. Decisions are made on these, never on the words of a reason.
FINISHED = "finished"  # the program exited with 0
JOB_DONE = "job-done"  # ended by rule: the job has succeeded
PROGRAM_EXIT = "exit"  # the program exited with another code
PROGRAM_KILLED = "killed"  # the program was killed by a signal
OUT_OF_MEMORY = "out-of-memory"
CANNOT_START = "cannot-start"  # the command, its folder or its files cannot be used
MODULE_MISSING = "module-missing"  # the program's interpreter lacks a module that it imports
NO_RESOURCES = "no-resources"  # the system has no process, thread or descriptor left for it
PORT_TAKEN = "port-taken"  # another process has the control port
PEER_MISSING = "peer-missing"  # a needed launcher did not come by start_timeout
NOT_LISTENING = "not-listening"  # the program never listened on its port
UNREACHABLE = "unreachable"  # the port of a peer's program cannot be reached from here
SILENCE = "silence"  # no task that decides about the job has answered
STALLED = "stalled"  # the program stands still: stopped, or without progress
GIVEN_UP = "given-up"  # the job was completed without this task
PEER_FAILED = "peer-failed"  # stopped because another task failed
DEADLINE = "deadline"
SIGNALLED = "signalled"  # the launcher was told to go by a signal from outside
LAUNCHER_KILLED = "launcher-killed"  # the launcher died without a word
STOPPED = "stopped"  # ended by `tfcluster down`, or by an `up` that replaced the run
# Another attempt would end in the same way.
FINAL = frozenset({CANNOT_START, MODULE_MISSING})
WAITING = "waiting"  # not started yet: waits for peers
RESTARTING = "restarting"


def exit_code_of(returncode: int) -> int:
    """subprocess's negative signal numbers as shells, Docker and Kubernetes write them."""
    return 128 - returncode if returncode < 0 else returncode


def kind_of_exit(code: int) -> str:
    """The kind of end that a program's exit code alone tells."""
    if code == 0:
        return FINISHED
    if code in (126, 127):  # as shells, env and others say it
        return CANNOT_START
    return PROGRAM_KILLED if 128 < code < 128 + 65 else PROGRAM_EXIT


def describe_exit(code: int) -> str:
    """An exit code in words."""
    words = {
        0: "finished",
        EXIT_KILLED: "killed by a signal",
        126: "exit code 126 (the command cannot be executed)",
        127: "exit code 127 (command not found)",
        EXIT_PEER_FAILED: "stopped because another task failed",
        EXIT_NOT_STARTED: "not started in time",
        EXIT_STALLED: "stood still for too long",
        EXIT_DEADLINE: "the job's deadline passed",
    }
    if code in words:
        return words[code]
    if 128 < code < 128 + 65:
        with contextlib.suppress(ValueError):
            name = signal.Signals(code - 128).name
            return f"killed by {name} (exit code {code})"
    return f"exit code {code}"


def may_restart(
    limit: int, only: Optional[Sequence[int]], failures: int, code: int, kind: str = ""
) -> bool:
    """The restart rule: whether a task that has failed so often before may start once more.

    `only` lists exit codes. Without it, ends that would only come again are final.
    """
    allowed = kind not in FINAL if only is None else code in only
    return failures < limit and allowed


class Stop(Exception):
    """A task is over: state, exit code, kind and reason are settled."""

    def __init__(self, state: str, code: int, kind: str, reason: str, peer: Optional[str] = None):
        super().__init__(reason)
        self.state, self.code, self.kind, self.reason, self.peer = state, code, kind, reason, peer
