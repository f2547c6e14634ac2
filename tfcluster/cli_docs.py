"""Writes docs/commands.md from the command line itself: `python -m tfcluster.cli_docs`."""

from __future__ import annotations

import sys
from typing import Any

import typer

from tfcluster.cli import PANELS, app, load_command

WIDTH = 96
HEAD = """# Commands

Written by `python -m tfcluster.cli_docs > docs/commands.md`; a test holds it to the program.

Data and log lines go to stdout; progress, notices and errors go to stderr.

| exit code | meaning |
|---|---|
| 0 | it worked |
| 1 | tfcluster itself could not do it; for `diff`: something differs |
| 2 | the call or the spec is wrong |
| 3 | something needed is missing or cannot be reached |
| 4 | a time-out |
| 5 | the job failed |
| 130 | Ctrl-C |
| 143 | SIGTERM; the job goes on |

`exec` passes on the code of its command.

| variable | meaning |
|---|---|
| `TFCLUSTER_BACKEND` | as `--backend` |
| `TFCLUSTER_JOB` | as `--job`, where neither a job nor a spec is given |
| `TFCLUSTER_COLOR` | as `--color` |
| `TFCLUSTER_HOME` | where runs are recorded |
| `NO_COLOR` | no colours, unless `--color always` |

A flag wins over a variable, and a variable over the spec.

Which job is meant: the one of the spec given, else of `cluster.yaml` in this folder, else the one
last brought up from this folder, else the only one there is. `--job NAME` says it outright.
"""


def help_text(command: Any, path: str) -> str:
    context = typer.Context(
        command, info_name=path, terminal_width=WIDTH, help_option_names=["-h", "--help"]
    )
    return "\n".join(line.rstrip() for line in command.get_help(context).splitlines())


def document() -> str:
    """The whole page."""
    parts = [HEAD, "## tfcluster\n\n```text\n" + help_text(group(), "tfcluster") + "\n```\n"]
    for panel, verbs in PANELS.items():
        parts.append(f"## {panel}\n")
        for name in verbs:
            text = help_text(load_command(name), f"tfcluster {name}")
            parts.append(f"### tfcluster {name}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def group() -> Any:
    return typer.main.get_command(app)


if __name__ == "__main__":
    sys.stdout.write(document())
