"""Draws docs/up.svg: what `tfcluster up` shows in the middle of a real run.

python docs/picture.py      # needs tmux, and tfcluster with its trainer installed
"""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
COLUMNS, ROWS = 84, 20
SESSION = "tfcluster-picture"
DEADLINE = 300


def tmux(*args: str) -> str:
    return subprocess.run(["tmux", *args], check=True, capture_output=True, text=True).stdout


def middle_of_a_run() -> str:
    """The screen, with its colours, when worker-1 has made about half of its steps."""
    with tempfile.TemporaryDirectory() as home:
        command = [sys.executable, "-m", "tfcluster", "--color", "always", "up"]
        line = f"TFCLUSTER_HOME={home} {shlex.join(command)} examples/mnist.yaml"
        tmux(
            "new-session", "-d", "-s", SESSION, "-x", str(COLUMNS), "-y", str(ROWS), "-c", str(ROOT)
        )
        try:
            tmux("send-keys", "-t", SESSION, f"clear; PS1='$ '; {line}; clear", "Enter")
            deadline = time.monotonic() + DEADLINE
            while time.monotonic() < deadline:
                screen = tmux("capture-pane", "-t", SESSION, "-p", "-e")
                found = re.search(r"worker-1 .*?(\d+)/(\d+)", re.sub(r"\x1b\[[0-9;]*m", "", screen))
                if found and int(found[1]) > 0.5 * int(found[2]):
                    return screen
                time.sleep(0.1)
            raise SystemExit(f"no progress of worker-1 was shown within {DEADLINE} s:\n{screen}")
        finally:
            tmux("send-keys", "-t", SESSION, "C-c", "")
            time.sleep(3)
            tmux("kill-session", "-t", SESSION)


def drawn(screen: str) -> str:
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text("$ tfcluster up examples/mnist.yaml", style="bold"))
    console.print(Text.from_ansi(screen.rstrip()))
    svg = console.export_svg(title="tfcluster up examples/mnist.yaml")
    # The picture must not load fonts from elsewhere; any monospaced font will do.
    return re.sub(r"@font-face\s*{.*?}", "", svg, flags=re.DOTALL)


if __name__ == "__main__":
    (ROOT / "docs" / "up.svg").write_text(drawn(middle_of_a_run()), encoding="utf-8")
