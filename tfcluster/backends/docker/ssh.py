"""Engines behind ssh://: a socket on this machine that leads to the engine on another.

Every connection to the socket becomes one `ssh HOST docker system dial-stdio`, as Docker's own
command line does it, so that the person's ssh configuration, agent and known hosts apply.
$TFCLUSTER_SSH replaces `ssh`, as in `ssh -i key`.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import socket
import subprocess
import tempfile
import threading
from pathlib import Path
from urllib.parse import urlsplit

CONNECT_TIMEOUT = 10
SHOWN_LINES = 3


class Tunnel:
    """Leads to one engine for as long as this process lives."""

    def __init__(self, url: str):
        self.argv = dial_argv(url)
        self.folder = Path(tempfile.mkdtemp(prefix="tfcluster-"))
        self.errors = self.folder / "ssh.log"
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(self.folder / "docker.sock"))
        self.server.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"unix://{self.folder / 'docker.sock'}"

    def accept(self) -> None:
        # The socket itself is ssh's input and output: nothing has to be copied here.
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.server.accept()
                with connection, open(self.errors, "ab") as errors:
                    process = subprocess.Popen(
                        self.argv,
                        stdin=connection.fileno(),
                        stdout=connection.fileno(),
                        stderr=errors,
                        start_new_session=True,  # Ctrl-C is ours to handle, not ssh's
                    )
                threading.Thread(target=process.wait, daemon=True).start()

    def last_words(self) -> list[str]:
        """What ssh said last, for error messages."""
        with contextlib.suppress(OSError):
            lines = self.errors.read_text(errors="replace").splitlines()
            return [f"  {line}" for line in lines[-SHOWN_LINES:] if line.strip()]
        return []

    def close(self) -> None:
        self.server.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def ssh_argv(url: str) -> list[str]:
    """ssh with the options for this host; the host's name comes next."""
    parts = urlsplit(url)
    argv = shlex.split(os.environ.get("TFCLUSTER_SSH", "ssh"))
    # Questions could not be answered here; a host that is off must not hold us up for minutes.
    argv += ["-T", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_TIMEOUT}"]
    argv += ["-o", "ServerAliveInterval=30"]
    if parts.username:
        argv += ["-l", parts.username]
    if parts.port:
        argv += ["-p", str(parts.port)]
    return argv


def dial_argv(url: str) -> list[str]:
    """The command that connects its input and output to the engine at an ssh:// URL."""
    parts = urlsplit(url)
    dial = ["docker"]
    if parts.path.strip("/"):
        dial += ["-H", f"unix://{parts.path}"]
    return [*ssh_argv(url), "--", parts.hostname or "", shlex.join([*dial, "system", "dial-stdio"])]


def forward_argv(url: str, port: int, remote: int) -> list[str]:
    """The command that leads a port of this machine to a port of that one's loopback."""
    lead = ["-N", "-L", f"127.0.0.1:{port}:127.0.0.1:{remote}"]
    return [*ssh_argv(url), *lead, "--", urlsplit(url).hostname or ""]
