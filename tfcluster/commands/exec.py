"""`tfcluster exec`: a command in a task's surroundings, with its exit code."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from tfcluster import console
from tfcluster.backends import load_backend
from tfcluster.commands import options
from tfcluster.errors import MissingError, UsageError
from tfcluster.interrupts import raised_interrupts
from tfcluster.plan import known_tasks, require_plan

EXAMPLES = (
    ("tfcluster exec worker-1 -- env", "what its program sees"),
    ("tfcluster exec -it worker-1 -- bash", "a shell there"),
    ("echo 'print(1)' | tfcluster exec worker-1 python", "with input from a pipe"),
)


# Before `--` also behind the task, where kubectl takes them too.
TERMINAL_OPTIONS = {"-i": None, "-t": True, "-it": True, "-ti": True}


def command(
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK", help="As in worker-1.", autocompletion=options.complete_task
        ),
    ],
    argv: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="What to run, with its arguments."),
    ] = None,
    interactive: Annotated[
        bool, typer.Option("--interactive", "-i", help="Pass input on; it always is.")
    ] = False,
    tty: Annotated[
        bool | None,
        typer.Option(
            "--tty/--no-tty",
            "-t/-T",
            help="Give it a terminal, or none.  [default: if this is one]",
            show_default=False,
        ),
    ] = None,
    file: options.File = None,
    job: options.Job = None,
) -> int:
    """Run a command in a task's surroundings: its folder, environment and TF_CONFIG.

    Input is always passed on. The command gets a terminal if input and output are one; with -t it
    is enough that input is. Options of exec itself come before the task. The exit code is the
    command's own.
    """
    words = list(argv or ())
    while "--" in words and words[0] in TERMINAL_OPTIONS:
        tty = TERMINAL_OPTIONS[words.pop(0)] or tty
    words = words[1:] if words[:1] == ["--"] else words
    if not words:
        raise UsageError(
            f"no command to run beside {task}", hint=f"as in: tfcluster exec {task} -- env"
        )
    run = options.find_job_run(file, job)
    plan = require_plan(run)
    if task not in plan.task_names:
        raise MissingError(f'job "{run.job}" has no task "{task}"', hint=known_tasks(plan))
    options.running(run)
    terminal = wants_terminal(tty, os.isatty(0), os.isatty(1))
    if tty and not terminal:
        console.warn("input is not a terminal, so the command gets none")
    with raised_interrupts():
        return load_backend(run.backend).exec(run, task, words, terminal=terminal)


def wants_terminal(asked: bool | None, stdin: bool, stdout: bool) -> bool:
    """Whether the command gets a terminal, from what was asked for and what is one here."""
    return stdin and (stdout if asked is None else asked)


command.context_settings = {"allow_interspersed_args": False}  # type: ignore[attr-defined]
