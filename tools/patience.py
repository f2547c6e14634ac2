"""Installs packages and shows that it works: what pip is at, and for how long.

python tools/patience.py TITLE PACKAGE ...

On a terminal one line is rewritten; elsewhere there is a line every now and then. What pip prints
is shown if it fails.
"""

from __future__ import annotations

import collections
import queue
import re
import shutil
import subprocess
import sys
import threading
import time

REWRITE_EVERY = 0.5  # seconds, on a terminal
LINE_EVERY = 20.0  # seconds, elsewhere
SHOWN = 40  # lines of a pip that failed
PIP = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
PIP += ["--no-input", "--progress-bar", "off"]
PHASES = (
    (r"Collecting ([\w.-]+)", r"collecting \1"),
    (r"Downloading ([\w.]+?)-\d.*?(\(.*\))", r"downloading \1 \2"),
    (r"Using cached ([\w.]+?)-\d", r"found \1"),
    (r"Installing (?:build|backend) dependencies", "preparing the build"),
    (r"Building (?:wheel|editable) for ([\w.-]+)", r"building \1"),
    (r"Installing collected packages: (.*)", "unpacking {count} packages"),
)


def phase_of(line: str) -> str:
    """What a line of pip says it is at; empty if it says nothing of the kind."""
    for pattern, words in PHASES:
        found = re.match(pattern, line.strip())
        if found:
            count = found[found.re.groups].count(",") + 1 if found.re.groups else 0
            return found.expand(words).format(count=count)
    return ""


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def follow(pipe: object, lines: queue.Queue[str | None]) -> None:
    for line in pipe:  # type: ignore[attr-defined]
        lines.put(line)
    lines.put(None)


def run(title: str, argv: list[str]) -> int:
    """Run the command to its end; its exit code."""
    on_terminal = sys.stderr.isatty()
    begun = shown = time.monotonic()
    phase, kept = "starting", collections.deque[str](maxlen=SHOWN)
    say(f"{title}\n")
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=follow, args=(process.stdout, lines), daemon=True).start()
        while True:
            try:
                line = lines.get(timeout=REWRITE_EVERY)
                if line is None:
                    break
                kept.append(line)
                phase = phase_of(line) or phase
            except queue.Empty:
                pass
            now = time.monotonic()
            if now - shown >= (REWRITE_EVERY if on_terminal else LINE_EVERY):
                shown = now
                show(f"  {clock(now - begun)}  {phase}", on_terminal)
    if on_terminal:
        say("\r\x1b[K")
    if process.returncode:
        say("".join(kept))
    else:
        say(f"  done in {clock(time.monotonic() - begun)}\n")
    return process.returncode


def show(text: str, on_terminal: bool) -> None:
    width = shutil.get_terminal_size().columns - 1
    say(f"\r{text[:width]}\x1b[K" if on_terminal else f"{text}\n")


def say(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


if __name__ == "__main__":
    try:
        sys.exit(run(sys.argv[1], [*PIP, *sys.argv[2:]]))
    except KeyboardInterrupt:
        say("\n")
        sys.exit(130)
