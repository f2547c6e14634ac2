"""What to do next, from what is known of the first failure."""

from __future__ import annotations

import pytest

from tfcluster.commands.outcome import advice
from tfcluster.events import Cause
from tfcluster.launch import exits


@pytest.mark.parametrize(
    ("code", "kind", "peer", "lines", "part"),
    [
        (137, exits.PROGRAM_KILLED, None, (), "ran out of memory"),
        (137, exits.LAUNCHER_KILLED, None, (), "ran out of memory"),
        (137, exits.OUT_OF_MEMORY, None, (), "roles.worker.memory"),
        (127, exits.CANNOT_START, None, (), "on PATH"),
        (126, exits.CANNOT_START, None, (), "executable"),
        (121, exits.PEER_MISSING, "ps-0", (), "logs ps-0"),
        (121, exits.UNREACHABLE, "ps-0", (), "logs ps-0"),
        (121, exits.NOT_LISTENING, None, (), "logs worker-1"),
        (126, exits.NO_RESOURCES, None, (), "raise ulimit -u"),
        (121, exits.PORT_TAKEN, None, (), "another process has the port"),
        (124, exits.DEADLINE, None, (), "deadline"),
        (1, exits.PROGRAM_EXIT, None, ("No module named 'mine.data'",), "tfcluster logs worker-1"),
        (3, exits.PROGRAM_EXIT, None, ("boom",), "tfcluster logs worker-1"),
    ],
)
@pytest.mark.parametrize("reason", ["out of memory: waited 5 s for ps-9 at host:2", "finished", ""])
def test_the_hint_fits_the_kind_of_failure_whatever_its_words_are(
    code, kind, peer, lines, part, reason
):
    assert part in advice(Cause("worker-1", code, reason, lines, kind=kind, peer=peer))


@pytest.mark.parametrize(
    ("code", "part"),
    [(121, "logs worker-1"), (124, "deadline"), (127, "on PATH"), (137, "ran out of memory")],
)
def test_an_exit_code_alone_tells_what_it_can(code, part):
    cause = Cause.from_dict({"task": "worker-1", "exitCode": code, "reason": ""})
    assert part in advice(cause)
