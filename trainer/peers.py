"""Which of the other tasks answer: asked from outside of TensorFlow, which cannot tell them apart.

The kernel accepts connections for a process that was stopped, so an open port proves nothing. A
gRPC server, however, begins every connection with its settings, and a stopped one does not.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from trainer.cluster import ClusterInfo, host_of

# The first words of HTTP/2, and a settings frame with nothing in it.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0"
ANSWER_SECONDS = 3.0
MOST_ASKED = 32  # at a time

SPEAKS, SILENT, ABSENT = "speaks", "silent", "absent"


def reach(address: str, seconds: float = ANSWER_SECONDS) -> str:
    """SPEAKS, SILENT (it is there, or cut off, and says nothing) or ABSENT (nothing is there)."""
    host, port = host_of(address).strip("[]"), int(address.rpartition(":")[2])
    deadline = time.monotonic() + seconds
    try:
        with socket.create_connection((host, port), timeout=seconds) as connection:
            connection.settimeout(max(0.1, deadline - time.monotonic()))
            connection.sendall(PREFACE)
            return SPEAKS if connection.recv(1) else ABSENT
    except TimeoutError:
        return SILENT
    except OSError:
        return ABSENT


def other_tasks(cluster: ClusterInfo) -> dict[str, str]:
    """The addresses of all tasks that run a server, but this one."""
    everyone = {
        f"{role}-{i}": address
        for role, hosts in cluster.jobs.items()
        if role != "evaluator"
        for i, address in enumerate(hosts)
    }
    return {task: address for task, address in everyone.items() if task != cluster.task}


def ask_all(tasks: Mapping[str, str]) -> dict[str, str]:
    """How each of these tasks can be reached, asked at the same time."""
    if not tasks:
        return {}
    with ThreadPoolExecutor(min(MOST_ASKED, len(tasks))) as pool:
        return dict(zip(tasks, pool.map(reach, tasks.values()), strict=True))


def name_silent(cluster: ClusterInfo, tasks: Mapping[str, str] | None = None) -> str:
    """Those of the tasks that do not answer, comma-separated; "" if it cannot be said which.

    A task that is not there at all counts only if it serves: others may have finished.
    """
    found = ask_all(other_tasks(cluster) if tasks is None else tasks)
    silent = [task for task, how in found.items() if how == SILENT]
    missing = [task for task in cluster.served if found.get(task) == ABSENT]
    return ", ".join(silent or missing)
