"""Commands inside a task's pod, over the API: the person's own, and messages to its launcher."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from tfcluster.backends.docker.exec import raw_terminal
from tfcluster.backends.kubernetes.api import Cluster, Unreachable
from tfcluster.backends.kubernetes.apply import pods_of
from tfcluster.backends.kubernetes.state import task_of, terminated
from tfcluster.errors import MissingError, TfclusterError
from tfcluster.launch.system import write_all

POD_PATIENCE = 20.0  # for a pod that is just starting
STDIN, STDOUT, STDERR, STATUS, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
LAUNCHER = ("python3", "-I", "/tfcluster/launcher.py", "--plan=/tfcluster/launch.json")


def running_pod(cluster: Cluster, selector: str, task: str) -> str:
    """The pod that a task runs in; one that is just starting is waited for."""
    chosen = f"{selector},tfcluster.io/role={task.rpartition('-')[0]}"
    deadline = time.monotonic() + POD_PATIENCE
    while True:
        pods = [pod for pod in pods_of(cluster, chosen) if task_of(pod) == task]
        for pod in pods:
            if pod["status"].get("phase") == "Running" and terminated(pod) is None:
                return str(pod["metadata"]["name"])
        if time.monotonic() > deadline:
            raise MissingError(f"{task} has no running pod", hint="see: tfcluster status")
        time.sleep(0.3)


def tell(cluster: Cluster, pod: str, role: str, message: Mapping[str, Any]) -> None:
    """Send a task's launcher a message from inside its pod, where its port can be reached."""
    argv = [*LAUNCHER, f"--role={role}", "--tell", json.dumps(message)]
    code, said = Session(cluster, pod, argv).collect()
    if code != 0:
        lines = said.decode("utf-8", "replace").splitlines()[-3:]
        raise TfclusterError(f"{pod} could not be told", evidence=[f"  {line}" for line in lines])


def run_inside(
    cluster: Cluster, pod: str, role: str, argv: Sequence[str], *, terminal: bool
) -> int:
    """Run a command as the task would be run, with our input and output; its exit code."""
    command = [*LAUNCHER, f"--role={role}", "--exec", *argv]
    session = Session(cluster, pod, command, stdin=True, terminal=terminal)
    with raw_terminal(terminal):
        if terminal:
            columns, lines = os.get_terminal_size(0)
            session.send(RESIZE, json.dumps({"Width": columns, "Height": lines}).encode())
        threading.Thread(target=session.send_input, daemon=True).start()
        return session.pass_on()


class Session:
    """One command in a pod: a websocket whose messages begin with the number of a channel."""

    def __init__(
        self,
        cluster: Cluster,
        pod: str,
        argv: Sequence[str],
        *,
        stdin: bool = False,
        terminal: bool = False,
    ):
        query = [("container", "task"), ("stdout", "true"), ("stdin", str(stdin).lower())]
        query += [("stderr", str(not terminal).lower()), ("tty", str(terminal).lower())]
        query += [("command", word) for word in argv]
        path = f"{cluster.path('Pod', pod)}/exec?{urlencode(query)}"
        self.socket = open_socket(cluster, path)
        self.status: dict[str, Any] = {}

    def send(self, channel: int, data: bytes) -> None:
        self.socket.send_binary(bytes([channel]) + data)

    def send_input(self) -> None:
        with contextlib.suppress(Exception):  # the command has ended, or the connection has
            while data := os.read(0, 1 << 16):
                self.send(STDIN, data)
            if "v5" in (self.socket.subprotocol or ""):
                self.socket.send_binary(bytes([CLOSE, STDIN]))

    def messages(self) -> Any:
        """Channel and data of every message until the command has ended."""
        import websocket

        try:
            while True:
                code, frame = self.socket.recv_data_frame(True)
                if code == websocket.ABNF.OPCODE_CLOSE:
                    return
                if code in (websocket.ABNF.OPCODE_BINARY, websocket.ABNF.OPCODE_TEXT):
                    if frame.data[:1] == bytes([STATUS]):
                        self.status = json.loads(frame.data[1:])
                    elif len(frame.data) > 1:
                        yield frame.data[0], frame.data[1:]
        except (websocket.WebSocketException, OSError) as error:
            if not self.status:
                raise Unreachable(f"the connection to the pod broke: {error}") from None
        finally:
            self.socket.close()

    def pass_on(self) -> int:
        for channel, data in self.messages():
            if channel in (STDOUT, STDERR):
                write_all(channel, data)
        return self.exit_code()

    def collect(self) -> tuple[int, bytes]:
        said = b"".join(data for _, data in self.messages())
        return self.exit_code(), said

    def exit_code(self) -> int:
        if self.status.get("status") == "Success":
            return 0
        for cause in (self.status.get("details") or {}).get("causes") or []:
            if cause.get("reason") == "ExitCode":
                return int(cause["message"])
        raise TfclusterError(self.status.get("message") or "the command did not say how it ended")


def open_socket(cluster: Cluster, path: str, protocol: str | None = None) -> Any:
    """A websocket to the API server; its refusal becomes ours."""
    import websocket
    from kubernetes.stream import ws_client

    make: Any = ws_client.create_websocket
    url = "ws" + cluster.configuration.host.removeprefix("http") + path
    headers = {key.lower(): value for key, value in cluster.auth().items()}
    if protocol is not None:
        headers["sec-websocket-protocol"] = protocol
    try:
        return make(cluster.configuration, url, headers)
    except websocket.WebSocketBadStatusException as error:
        body = error.resp_body if isinstance(error.resp_body, bytes) else b""
        raise cluster.refusal(error.status_code, body, "GET", path.partition("?")[0]) from None
    except (websocket.WebSocketException, OSError) as error:
        raise Unreachable(f"the API server of {cluster.context} does not answer: {error}") from None
