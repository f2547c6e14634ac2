"""The program of a task: started, watched, and ended with all that it started itself."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from typing import Callable, Dict, List, Optional

from tfcluster.launch.exits import exit_code_of
from tfcluster.launch.output import Output
from tfcluster.launch.system import (
    descendants,
    group_memory,
    is_stopped,
    prepare_child,
    process_start,
    signal_group,
    start_thread,
)

DRAIN = 2.0  # seconds for the last lines, once the program is gone
MOST_SWEEPS = 50


class Program:
    """One attempt of a task's program."""

    def __init__(
        self,
        argv: List[str],
        env: Dict[str, str],
        folder: Optional[str],
        cpus: Optional[List[int]],
        output: Output,
        ended: Callable[["Program"], None],
    ):
        """Start it; OSError if that cannot be done. `ended` is called from another thread."""
        self.process = subprocess.Popen(
            argv,
            env=env,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=prepare_child(cpus),
            start_new_session=True,
        )
        self.argv, self.output = argv, output
        self.pid = self.process.pid
        self.start = process_start(self.pid)
        self.ended = ended
        self.python: Optional[str] = None  # the interpreter that it runs under, if that is one
        streams = (("stdout", self.process.stdout), ("stderr", self.process.stderr))
        try:
            self.pumps = [start_thread(output.pump, name, pipe) for name, pipe in streams]
            start_thread(self._wait)
        except OSError:
            self.kill()
            self.process.wait()
            raise

    def _wait(self) -> None:
        self.process.wait()
        self.ended(self)

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    @property
    def exit_code(self) -> int:
        return exit_code_of(self.process.returncode)

    @property
    def memory(self) -> int:
        return group_memory(self.pid)

    def kill(self) -> None:
        signal_group(self.pid, signal.SIGKILL)

    def stop(self, grace: float, say: Callable[[str], None]) -> None:
        """End the program and all that it left behind: politely for `grace` seconds, then not."""
        if self.running and not is_stopped(self.pid):  # a stopped one would not hear it
            signal_group(self.pid, signal.SIGTERM)
            try:
                self.process.wait(grace)
            except subprocess.TimeoutExpired:
                say(f"still there {grace:g} s after SIGTERM; killing it")
        self.kill()
        self.process.wait()
        end_orphans()
        for pump in self.pumps:
            pump.join(DRAIN)
        self.output.end_attempt()


def end_orphans() -> None:
    """Kill what a program left behind: we are the parent of its daemons (see adopt_orphans)."""
    for _ in range(MOST_SWEEPS):
        left = descendants(os.getpid())
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        reap()
        if not left:
            return
        time.sleep(0.01)


def reap(program: Optional[int] = None) -> None:
    """Wait for adopted processes that have ended; the program is waited for elsewhere."""
    if not hasattr(os, "waitid"):
        return
    with contextlib.suppress(ChildProcessError):
        while True:
            options = os.WEXITED | os.WNOHANG | os.WNOWAIT
            found = os.waitid(os.P_ALL, 0, options)
            if found is None or found.si_pid == program:
                return
            with contextlib.suppress(ChildProcessError):
                os.waitpid(found.si_pid, os.WNOHANG)
