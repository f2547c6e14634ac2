"""The `tfcluster` command as a person runs it: a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from tests.launchers import until

ROOT = Path(__file__).parent.parent.parent
TIMEOUT = 240
ENDING = 15.0  # seconds; a task that lingers, or was forgotten, stays longer


class Cli:
    """Runs commands in one folder with one state folder, and cleans up what they leave."""

    def __init__(self, folder: Path, home: Path):
        self.folder = folder
        self.home = home
        self.env = {**os.environ, "TFCLUSTER_HOME": str(home), "NO_COLOR": "1"}
        self.env.pop("TF_CONFIG", None)

    def argv(self, *args: str) -> list[str]:
        return [sys.executable, "-m", "tfcluster", *args]

    def __call__(self, *args: str, timeout: float = TIMEOUT) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*args),
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def start(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.argv(*args),
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def status(self) -> dict[str, Any]:
        done = self("status", "-o", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def task(self, name: str) -> dict[str, Any]:
        return next(task for task in self.status()["tasks"] if task["task"] == name)

    def wait_for(self, condition: Callable[[dict[str, Any]], Any], what: str) -> dict[str, Any]:
        """The job's status as soon as it fulfils a named condition."""
        found: list[dict[str, Any]] = []

        def there() -> bool:
            done = self("status", "-o", "json")
            if done.returncode == 0 and condition(json.loads(done.stdout)):
                found.append(json.loads(done.stdout))
            return bool(found)

        until(there, what, timeout=TIMEOUT, pause=0.2)
        return found[0]

    def left_behind(self) -> list[str]:
        """Processes that carry this state folder in their environment and are not about to end.

        A process that is on its way out, or finds as it starts that it is not wanted, has a moment.
        """
        deadline = time.monotonic() + ENDING
        while (found := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found

    def processes(self) -> list[str]:
        """Processes that carry this state folder in their environment now."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("TFCLUSTER_HOME") == str(self.home):
                    found.append(" ".join(process.cmdline()))
            except psutil.Error:
                continue
        return found
