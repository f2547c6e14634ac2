"""A port of a pod as a port of this machine, over the API."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from tfcluster.archive import Run
from tfcluster.backends.kubernetes.api import Cluster
from tfcluster.backends.kubernetes.apply import pods_of
from tfcluster.backends.kubernetes.exec import open_socket
from tfcluster.backends.kubernetes.run import selector_of
from tfcluster.backends.kubernetes.state import pod_problem
from tfcluster.errors import MissingError, TfclusterError, WaitTimeout

TENSORBOARD_PORT = 6006
READY_PATIENCE = 120.0


def tensorboard(
    cluster: Cluster, run: Run, port: int, announce: Callable[[], None], say: Callable[[str], None]
) -> int:
    """Forward the run's TensorBoard until Ctrl-C."""
    pod = tensorboard_pod(cluster, run)
    with socket.create_server(("127.0.0.1", port)) as server:
        announce()
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                connection, _ = server.accept()
                threading.Thread(
                    target=forward, args=(cluster, pod, connection, say), daemon=True
                ).start()
    return 0


def tensorboard_pod(cluster: Cluster, run: Run) -> str:
    """The pod that runs TensorBoard, once it is ready."""
    chosen = f"{selector_of(run)},tfcluster.io/part=tensorboard"
    deadline = time.monotonic() + READY_PATIENCE
    while True:
        pods = pods_of(cluster, chosen)
        if not pods:
            raise MissingError(
                "the job runs no TensorBoard in the cluster",
                hint="in the spec, tensorboard: true and kubernetes: {storage: {size: 10Gi}}; then "
                "tfcluster up",
            )
        for pod in pods:
            ready = (pod["status"].get("containerStatuses") or [{}])[0].get("ready")
            if ready:
                return str(pod["metadata"]["name"])
        if time.monotonic() > deadline:
            raise WaitTimeout(
                f"TensorBoard is not ready after {READY_PATIENCE:g} s",
                evidence=[f"  {pod_problem(pods[0], []).message}"],
                hint="see: tfcluster events",
            )
        time.sleep(0.5)


def forward(
    cluster: Cluster, pod: str, connection: socket.socket, say: Callable[[str], None]
) -> None:
    """Carry one connection to the pod and back."""
    from kubernetes.stream import ws_client

    make: Any = ws_client.PortForward
    path = f"{cluster.path('Pod', pod)}/portforward?ports={TENSORBOARD_PORT}"
    try:
        channel = make(open_socket(cluster, path, "v4.channel.k8s.io"), [TENSORBOARD_PORT])
    except TfclusterError as error:
        say(error.message)
        connection.close()
        return
    far = channel.socket(TENSORBOARD_PORT)
    back = threading.Thread(target=carry, args=(far, connection), daemon=True)
    back.start()
    carry(connection, far)
    back.join()


def carry(source: Any, target: Any) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
