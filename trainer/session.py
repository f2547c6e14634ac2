"""Servers and sessions: how tasks reach each other, and what happens when they do not."""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, NoReturn

from trainer.cluster import ClusterInfo, host_of, threads_for
from trainer.devices import device_options
from trainer.errors import TrainerError
from trainer.phase import enter, wait_for
from trainer.settings import Settings
from trainer.watchdog import WatchedSession, blame, deadline, watchdog_for

POLL_SECONDS = 0.05
OVER_SECONDS = 0.5
GONE_SECONDS = 3.0

# Closing a session waits for its tasks, for ever if one of them is gone. So sessions are never
# closed, nor collected; the end of the process does it.
_KEPT_OPEN: list[Any] = []


def import_tensorflow() -> None:
    """Import TensorFlow without its notices, unless TF_CPP_MIN_LOG_LEVEL asks for them (0 or 1).

    TensorFlow 2.21 prints its oneDNN notice at every log level while it is being imported, so
    stderr is held back for that time; an import that fails shows what was held.
    """
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL") in ("0", "1"):
        import tensorflow

        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    sys.stderr.flush()
    real = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            import tensorflow  # noqa: F401
        except BaseException:
            held.seek(0)
            os.write(real, held.read())
            raise
        finally:
            os.dup2(real, 2)
            os.close(real)
    logging.getLogger("tensorflow").setLevel(logging.ERROR)


def wait_until(condition: Callable[[], bool], seconds: float, message: Callable[[], str]) -> None:
    """Poll until the condition holds; after the deadline, fail with the message."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TrainerError(f"{message()} within {seconds:g} s")
        time.sleep(POLL_SECONDS)


def set_threads(cluster: ClusterInfo, settings: Settings) -> None:
    """Threads of everything that this process computes outside of sessions."""
    import tensorflow as tf

    threads = threads_for(cluster, settings.threads)
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(_inter_op(settings, threads))


def start_server(cluster: ClusterInfo, settings: Settings) -> Any:
    """This task's TensorFlow server, through which the others use its devices."""
    import tensorflow as tf

    jobs = {role: list(hosts) for role, hosts in cluster.jobs.items() if role != "evaluator"}
    try:
        return tf.distribute.Server(
            tf.train.ClusterSpec(jobs),
            job_name=cluster.role,
            task_index=cluster.index,
            config=_config(cluster, settings),
        )
    except tf.errors.OpError as error:
        address = cluster.jobs[cluster.role][cluster.index]
        raise TrainerError(f"cannot serve on {address}: {_first_line(error)}") from error


def serve(cluster: ClusterInfo, settings: Settings) -> NoReturn:
    """Only serve until a signal, or the chief, says that it is over; then exit 0.

    `Server.join()` would never return and would not let Python see a signal. TensorFlow's server
    has no clean end either: its threads outlive the interpreter, hence `os._exit`.
    """
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: os._exit(0))
    enter("importing TensorFlow")
    import_tensorflow()
    server = start_server(cluster, settings)
    enter(None)
    gc.enable()
    print(f"{cluster.task} serving on {cluster.jobs[cluster.role][cluster.index]}", flush=True)
    while "TFCLUSTER_TASK" in os.environ:
        signal.pause()  # the launcher knows when the job is over
    if settings.algorithm == "coordinator":
        _wait_until_gone(cluster.jobs["chief"][0])
    else:
        _wait_until_over(cluster, server)
    print(f"{cluster.task} done", flush=True)
    os._exit(0)


def _wait_until_over(cluster: ClusterInfo, server: Any) -> None:
    """Until the chief has set this task's `over` (see state.py)."""
    import tensorflow as tf

    from trainer.variables import over_variable

    device = f"/job:{cluster.role}/task:{cluster.index}/device:CPU:0"
    with tf.Graph().as_default() as graph, tf.device(device):
        over = over_variable(list(cluster.served).index(cluster.task))
        filled, value = over.is_initialized(), over.read_value()
    config = tf.compat.v1.ConfigProto(device_filters=[device])
    session = tf.compat.v1.Session(server.target, graph=graph, config=config)
    while not (session.run(filled) and session.run(value)):
        time.sleep(OVER_SECONDS)


def _wait_until_gone(address: str) -> None:
    """Until the chief, once it was there, has not accepted connections for some time.

    A TF2 strategy cannot see the variables of `_wait_until_over`.
    """
    while not answers(address):
        time.sleep(OVER_SECONDS)
    last = time.monotonic()
    while time.monotonic() - last < GONE_SECONDS:
        time.sleep(OVER_SECONDS)
        last = time.monotonic() if answers(address) else last


def wait_for_servers(cluster: ClusterInfo, seconds: float) -> None:
    """Until every task that serves accepts connections; one that does not is named."""
    for task, address in cluster.served.items():
        if not answers(address):
            wait_for([task])
        wait_until(
            lambda address=address: answers(address),  # type: ignore[misc]
            seconds,
            lambda task=task, address=address: (  # type: ignore[misc]
                f"{task} at {address} did not accept a connection"
            ),
        )


class Link:
    """The connection of a worker to its devices, which can be lost and made again."""

    def __init__(self, cluster: ClusterInfo, settings: Settings, probe: Any) -> None:
        self._cluster = cluster
        self._settings = settings
        self._probe = probe  # any operation that touches every ps
        self._server = None if cluster.alone else start_server(cluster, settings)
        self._lost_since: float | None = None
        self._watchdog = watchdog_for(cluster, settings.recovery_seconds)
        self.session: Any = None

    @property
    def lost_errors(self) -> tuple[type[Exception], ...]:
        """What a dead, restarted, empty or silent parameter server looks like from here."""
        from tensorflow import errors

        return (
            errors.AbortedError,
            errors.CancelledError,
            errors.DeadlineExceededError,
            errors.FailedPreconditionError,
            errors.NotFoundError,
            errors.UnavailableError,
            errors.UnknownError,
        )

    def connect(self, seconds: float) -> None:
        """A new session, once every task that serves accepts connections."""
        import tensorflow as tf

        wait_for_servers(self._cluster, seconds)
        config = _config(self._cluster, self._settings)
        target = ""
        if self._server is not None:
            # Without filters a session would wait for every other worker as well.
            own = f"/job:{self._cluster.role}/task:{self._cluster.index}"
            config.device_filters.extend([*(f"/job:{r}" for r in self._cluster.serving), own])
            config.operation_timeout_in_ms = int(self._settings.recovery_seconds * 1000)
            target = self._server.target
        session = tf.compat.v1.Session(target, graph=self._probe.graph, config=config)
        _KEPT_OPEN.append(session)
        self.session = session if self._server is None else WatchedSession(session, self._watchdog)
        with deadline(seconds, lambda: blame(self._cluster)):
            session.run(self._probe)

    def lose(self, error: Exception) -> None:
        """Drop the session after an error; give up if nothing has worked for too long."""
        self.session = None
        now = time.monotonic()
        self._lost_since = self._lost_since or now
        limit = self._settings.recovery_seconds
        if now - self._lost_since > limit:
            raise TrainerError(
                f"lost {self._everyone()}, and nothing worked for {limit:g} s; "
                f"last error: {_first_line(error)}"
            ) from error
        time.sleep(POLL_SECONDS)

    def _everyone(self) -> str:
        return ", ".join(f"{task} at {address}" for task, address in self._cluster.served.items())

    def works(self) -> None:
        """A step has succeeded: the next loss gets the whole time to recover again."""
        self._lost_since = None


def _config(cluster: ClusterInfo, settings: Settings) -> Any:
    import tensorflow as tf

    threads = threads_for(cluster, settings.threads)
    return tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=threads,
        inter_op_parallelism_threads=_inter_op(settings, threads),
        **device_options(cluster, settings),
    )


def _inter_op(settings: Settings, threads: int) -> int:
    """A remote function of TF2's coordinator blocks its thread: with one only, it never ends."""
    return max(threads, 4) if settings.algorithm == "coordinator" else threads


def answers(address: str) -> bool:
    """Whether somebody accepts connections there."""
    host, port = host_of(address).strip("[]"), int(address.rpartition(":")[2])
    try:
        with socket.create_connection((host, port), timeout=2):
            return True
    except OSError:
        return False


def _first_line(error: Exception) -> str:
    return (str(getattr(error, "message", "")) or str(error)).strip().split("\n")[0]
