"""Ctrl-C at any moment of `up`. As a program: `python -m tests.runs.presses 200`."""

from __future__ import annotations

import collections
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.runs.cli import Cli

SPEC = "{name: pressed, command: [sleep, '600'], roles: {worker: {replicas: 2}}}"
FRAME = re.compile(r'File ".*/tfcluster/(?!__init__|__main__|entry)')
PATIENCE = 60


def press(cli: Cli, *args: str, after: float) -> tuple[int, str]:
    """Exit code and output of a command that was interrupted after so many seconds."""
    command = cli.start(*args)
    time.sleep(after)
    command.send_signal(signal.SIGINT)
    try:
        out, err = command.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        command.kill()
        out, err = command.communicate()
        err += "\nit did not end"
    return command.returncode, out + err


def judge(code: int, said: str) -> str:
    """`130`; `interpreter`, if Python had not come to the first line of tfcluster; or what it was.

    What happens before that line is not for tfcluster to say: the kernel ends the process, or the
    interpreter prints a traceback of its own start.
    """
    if "Traceback" not in said and "ignored" not in said:
        if code == 130:
            return "130"
        return "interpreter" if code == -signal.SIGINT and not said else f"exit code {code}"
    if FRAME.search(said):
        return "a traceback"
    return "interpreter"


def main(count: int) -> int:
    found: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        cli = Cli(Path(folder), Path(folder) / "home")
        (cli.folder / "cluster.yaml").write_text(SPEC)
        for _ in range(count):
            after = random.uniform(0, 1)
            code, said = press(cli, "up", after=after)
            left = cli.left_behind()
            verdict = f"{len(left)} processes left" if left else judge(code, said)
            found[verdict] += 1
            if verdict not in ("130", "interpreter"):
                print(f"after {after:.3f} s: {verdict}\n{said}", flush=True)
                cli("down", "--all")
    for verdict, times in found.most_common():
        print(f"{times:5} {verdict}")
    return 0 if found.keys() <= {"130", "interpreter"} else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
