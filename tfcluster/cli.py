"""The command line: a table of verbs, each in a module that is imported only when it is called.

Also the one place where errors end: what went wrong is printed, and becomes the exit code.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from tfcluster import __version__, console
from tfcluster.errors import (
    EXIT_INTERRUPTED,
    EXIT_TOOL,
    EXIT_USAGE,
    DamagedRecord,
    TfclusterError,
    UsageError,
)
from tfcluster.quick import QuickCommand, QuickParameters

EXIT_BROKEN_PIPE = 141  # as a shell reports a program that a closed pipe has ended

PANELS = {
    "Start": {
        "init": ("tfcluster.commands.init", "Write a cluster.yaml that works at once."),
        "up": ("tfcluster.commands.up", "Start the job, or make it what the spec says, and watch."),
        "build": ("tfcluster.commands.build", "Build the trainer's container image."),
        "down": ("tfcluster.commands.down", "Stop the job; its logs are kept."),
    },
    "Watch": {
        "status": ("tfcluster.commands.status", "Show the job and its tasks."),
        "ps": ("tfcluster.commands.ps", "List tasks, or every job."),
        "logs": ("tfcluster.commands.logs", "Print what tasks print, live or afterwards."),
        "events": ("tfcluster.commands.events", "List what happened to the job."),
        "wait": ("tfcluster.commands.wait", "Wait until the job has ended."),
        "tensorboard": ("tfcluster.commands.tensorboard", "Show the run in TensorBoard."),
    },
    "Change": {
        "scale": ("tfcluster.commands.scale", "Change how many tasks a role has."),
        "restart": ("tfcluster.commands.restart", "Start the programs of tasks again, in place."),
        "suspend": ("tfcluster.commands.suspend", "Free the nodes of a Kubernetes job for now."),
        "resume": ("tfcluster.commands.resume", "Start a suspended job again."),
        "exec": ("tfcluster.commands.exec", "Run a command in a task's surroundings."),
    },
    "Look up": {
        "validate": ("tfcluster.commands.validate", "Check a spec; every problem at once."),
        "plan": ("tfcluster.commands.plan", "Show every task as it would be started."),
        "render": ("tfcluster.commands.render", "Print what would be applied."),
        "diff": ("tfcluster.commands.diff", "Show what up would change."),
        "fit": ("tfcluster.commands.fit", "Say whether the cluster has room for the job now."),
        "rbac": ("tfcluster.commands.rbac", "Print the least Kubernetes Role that is needed."),
        "history": ("tfcluster.commands.history", "List the runs of the job."),
        "schema": ("tfcluster.commands.schema", "Print the JSON Schema of cluster.yaml."),
        "doctor": ("tfcluster.commands.doctor", "Check what this machine has and lacks."),
        "version": ("tfcluster.commands.version", "Print the version."),
    },
}
COMMANDS = {name: entry for verbs in PANELS.values() for name, entry in verbs.items()}
PASSES_ARGUMENTS = ("exec",)  # whatever follows belongs to somebody else's command


def load_command(name: str) -> QuickCommand:
    """A verb's real command, from the function `command` of its module."""
    module, summary = COMMANDS[name]
    function = importlib.import_module(module).command
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    settings = getattr(function, "context_settings", None)
    app.command(name, cls=QuickCommand, short_help=summary, context_settings=settings)(function)
    loaded = typer.main.get_command(app)
    assert isinstance(loaded, QuickCommand)
    return loaded


class LazyGroup(QuickParameters, TyperGroup):
    """Knows every verb by name and summary, and imports the one that is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {
            name: QuickCommand(name, help=summary, rich_markup_mode=None)
            for name, (_, summary) in COMMANDS.items()
        }

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, *rest = args
        if name in COMMANDS:
            return name, load_command(name), rest
        if ctx.resilient_parsing:
            return None, None, rest
        from tfcluster.similar import did_you_mean

        hint = did_you_mean(name, COMMANDS) or "see tfcluster --help"
        raise UsageError(f'unknown command "{name}"', hint=hint)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for panel, verbs in PANELS.items():
            with formatter.section(panel):
                # The same column in every panel.
                rows = [(f"{name:11}", summary) for name, (_, summary) in verbs.items()]
                formatter.write_dl(rows)


app = typer.Typer(
    cls=LazyGroup,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def show_version(wanted: bool) -> None:
    if wanted:
        console.data(f"tfcluster {__version__}")
        raise typer.Exit()


@app.callback()
def options(
    color: Annotated[
        Literal["auto", "always", "never"],
        typer.Option(help="Colour the output; NO_COLOR is obeyed.", envvar="TFCLUSTER_COLOR"),
    ] = "auto",
    debug: Annotated[bool, typer.Option("--debug", help="Print tracebacks of errors.")] = False,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=show_version, is_eager=True),
    ] = False,
) -> None:
    """Run distributed TensorFlow from one file: cluster.yaml.

    The first minutes: tfcluster init mnist && cd mnist && tfcluster up
    """
    console.choose_color(color)
    show_otherwise = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, DamagedRecord):
            console.warn(str(message))
        else:
            show_otherwise(message, category, *where, **more)

    warnings.showwarning = show


def hoisted(arguments: Sequence[str]) -> list[str]:
    """The arguments with the global options first, so that they may follow the verb as well."""
    front: list[str] = []
    rest: list[str] = []
    left = list(arguments)
    while left:
        word = left.pop(0)
        if word == "--" or word in PASSES_ARGUMENTS:
            return [*front, *rest, word, *left]
        if word == "--debug" or word.startswith("--color="):
            front.append(word)
        elif word == "--color" and left:
            front += [word, left.pop(0)]
        else:
            rest.append(word)
    return [*front, *rest]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    given = hoisted(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character must not end the command.
        getattr(stream, "reconfigure", lambda **_: None)(errors="replace")
    try:
        command = typer.main.get_command(app)
        code = command.main(given or ["--help"], prog_name="tfcluster", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        return broken_pipe()
    except SystemExit as stop:
        # typer itself turns a closed pipe into this.
        return broken_pipe() if isinstance(stop.__context__, BrokenPipeError) else exit_code(stop)
    except TfclusterError as error:
        if debug:
            console.say(traceback_of(error))
        console.show_error(error)
        return error.exit_code
    except typer.TyperException as error:
        return usage_error(error)
    except Exception as error:
        # A SIGTERM that came while a lock was held makes its release fail; it is no crash.
        if isinstance(error.__context__, SystemExit):
            return exit_code(error.__context__)
        return crash(error, debug)


def exit_code(stop: SystemExit) -> int:
    return stop.code if isinstance(stop.code, int) else EXIT_TOOL if stop.code else 0


def broken_pipe() -> int:
    """The reader has gone; what is still buffered must not cause an error at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_BROKEN_PIPE


def usage_error(error: Any) -> int:
    """A call that typer could not understand."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "tfcluster"
    message = error.format_message().rstrip(".").replace("Value error, ", "")
    message = message[:1].lower() + message[1:]
    console.show_error(UsageError(message, hint=f"see {path} --help"))
    return EXIT_USAGE


def traceback_of(error: Exception) -> str:
    import traceback

    return "".join(traceback.format_exception(error))


def crash(error: Exception, debug: bool) -> int:
    """A mistake of ours: keep the traceback where it can be found, and say where."""
    import time

    from tfcluster.archive import home

    text = traceback_of(error)
    if debug:
        console.say(text)
    summary = f"{type(error).__name__}: {error}"
    path = home() / "crashes" / time.strftime("%Y%m%d-%H%M%S.txt")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"tfcluster {__version__}, Python {sys.version}\n\n{text}")
        evidence = [f"  the traceback is in {path}"]
    except OSError:
        evidence = [text]
    hint = "this is a bug in tfcluster; with --debug the traceback is printed"
    console.show_error(TfclusterError(summary, evidence=evidence, hint=hint))
    return EXIT_TOOL
