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
    OutputError,
    StateWarning,
    TfclusterError,
    UsageError,
)
from tfcluster.glyphs import choose_glyphs
from tfcluster.quick import QuickCommand, QuickParameters

EXIT_BROKEN_PIPE = 141  # as a shell reports a program that a closed pipe has ended

PANELS = {
    "Start": {
        "init": ("tfcluster.commands.init", "Write a cluster.yaml that works at once."),
        "run": ("tfcluster.commands.run", "Run a program as it is, without a spec."),
        "up": ("tfcluster.commands.up", "Start the job, or make it what the spec says, and watch."),
        "sweep": ("tfcluster.commands.sweep", "Run the job with many settings, and rank them."),
        "build": ("tfcluster.commands.build", "Build the trainer's container image."),
        "down": ("tfcluster.commands.down", "Stop the job; its logs are kept."),
    },
    "Watch": {
        "status": ("tfcluster.commands.status", "Show the job and its tasks."),
        "ps": ("tfcluster.commands.ps", "List tasks, or every job."),
        "logs": ("tfcluster.commands.logs", "Print what tasks print, live or afterwards."),
        "events": ("tfcluster.commands.events", "List what happened to the job."),
        "why": ("tfcluster.commands.why", "Say why the job failed or stands still."),
        "timeline": ("tfcluster.commands.timeline", "Show where the time of a run went."),
        "fetch": ("tfcluster.commands.fetch", "Bring what tasks have written to a folder here."),
        "wait": ("tfcluster.commands.wait", "Wait until the job has ended."),
        "tensorboard": ("tfcluster.commands.tensorboard", "Show the run in TensorBoard."),
    },
    "Change": {
        "scale": ("tfcluster.commands.scale", "Change how many tasks a role has."),
        "restart": ("tfcluster.commands.restart", "Start the programs of tasks again, in place."),
        "suspend": ("tfcluster.commands.suspend", "Free the nodes of a Kubernetes job for now."),
        "resume": ("tfcluster.commands.resume", "Start a suspended job again."),
        "exec": ("tfcluster.commands.exec", "Run a command in a task's surroundings."),
        "cp": ("tfcluster.commands.cp", "Copy files between this machine and a task."),
        "rm": ("tfcluster.commands.rm", "Remove runs, with all that they have left."),
        "prune": ("tfcluster.commands.prune", "Remove old runs of every job."),
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
        "completion": ("tfcluster.commands.completion", "Print what completes words in a shell."),
        "help": ("tfcluster.commands.help", "Show this text, or that of a command."),
        "version": ("tfcluster.commands.version", "Print the version."),
    },
}
COMMANDS = {name: entry for verbs in PANELS.values() for name, entry in verbs.items()}
PASSES_ARGUMENTS = ("exec", "run")  # whatever follows belongs to another command
# What other tools call it -> what to type here.
SYNONYMS = {
    "apply": "up",
    "attach": "logs -f",
    "cancel": "down",
    "check": "validate",
    "clean": "prune",
    "create": "init",
    "delete": "down",
    "deploy": "up",
    "describe": "status",
    "destroy": "down",
    "get": "ps",
    "info": "status",
    "kill": "down",
    "list": "ps",
    "log": "logs",
    "ls": "ps",
    "new": "init",
    "remove": "rm",
    "shell": "exec",
    "show": "status",
    "ssh": "exec",
    "start": "up",
    "stop": "down",
    "tail": "logs -f",
    "template": "render",
    "terminate": "down",
    "top": "status --watch",
    "watch": "status --watch",
}
COMPLETE = "_TFCLUSTER_COMPLETE"  # set by a shell that wants words; see commands.completion


def load_command(name: str) -> QuickCommand:
    """A verb's real command, from the function `command` of its module."""
    module, summary = COMMANDS[name]
    loaded_module = importlib.import_module(module)
    function = loaded_module.command
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    settings = getattr(function, "context_settings", None)
    app.command(name, cls=QuickCommand, short_help=summary, context_settings=settings)(function)
    loaded = typer.main.get_command(app)
    assert isinstance(loaded, QuickCommand)
    loaded.examples = loaded_module.EXAMPLES
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
        raise UsageError(f'unknown command "{name}"', hint=meant(name))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for panel, verbs in PANELS.items():
            with formatter.section(panel):
                # The same column in every panel.
                rows = [(f"{name:11}", summary) for name, (_, summary) in verbs.items()]
                formatter.write_dl(rows)


def meant(word: str) -> str:
    """What a person who typed this probably wants to do."""
    from tfcluster.similar import did_you_mean

    if word in SYNONYMS:
        summary = COMMANDS[SYNONYMS[word].partition(" ")[0]][1]
        return f'did you mean "tfcluster {SYNONYMS[word]}"? {summary}'
    return did_you_mean(word, COMMANDS) or "see tfcluster --help"


app = typer.Typer(
    cls=LazyGroup,
    add_completion=False,
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
    said: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, StateWarning):
            if str(message) not in said:
                said.add(str(message))
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
    if given[:1] == ["--show-completion"]:  # what other programs made with typer have
        given[0] = "completion"
    debug = "--debug" in given
    if COMPLETE in os.environ:
        prepare_completion()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character must not end the command.
        getattr(stream, "reconfigure", lambda **_: None)(errors="replace")
    choose_glyphs(sys.stdout, sys.stderr)
    try:
        command = typer.main.get_command(app)
        code = command.main(given or ["--help"], prog_name="tfcluster", standalone_mode=False)
        console.flush()
        return code if isinstance(code, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        return broken_pipe()
    except SystemExit as stop:
        # typer itself turns a closed pipe into this.
        return broken_pipe() if isinstance(stop.__context__, BrokenPipeError) else exit_code(stop)
    except TfclusterError as error:
        return failed(error, debug)
    except typer.TyperException as error:
        return usage_error(error)
    except Exception as error:
        # A SIGTERM that came while a lock was held makes its release fail; it is no crash.
        if isinstance(error.__context__, SystemExit):
            return exit_code(error.__context__)
        return refused(error, debug) if isinstance(error, OSError) else crash(error, debug)


def failed(error: TfclusterError, debug: bool) -> int:
    """An error that a person can act on."""
    if debug:
        console.say(traceback_of(error))
    console.show_error(error)
    if isinstance(error, OutputError):
        discard_output()
    return error.exit_code


def refused(error: OSError, debug: bool) -> int:
    """What the system does not allow is no mistake of ours."""
    from tfcluster.archive import home
    from tfcluster.refusals import explain

    found = explain(error, home())
    if found is None:
        return crash(error, debug)
    found.__cause__ = error
    return failed(found, debug)


def prepare_completion() -> None:
    """A shell asks for words: nothing but those may appear beside what the person types."""
    from typer._completion_classes import completion_init

    completion_init()
    sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def exit_code(stop: SystemExit) -> int:
    return stop.code if isinstance(stop.code, int) else EXIT_TOOL if stop.code else 0


def broken_pipe() -> int:
    """The reader has gone."""
    discard_output()
    return EXIT_BROKEN_PIPE


def discard_output() -> None:
    """What is still buffered must not cause an error at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def usage_error(error: Any) -> int:
    """A call that typer could not understand."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "tfcluster"
    message = error.format_message().rstrip(".").replace("Value error, ", "")
    message = message.replace("Input should", "it should")
    message = message[:1].lower() + message[1:]
    console.show_error(UsageError(message, hint=f"see {path} --help"))
    return EXIT_USAGE


def traceback_of(error: Exception) -> str:
    import traceback

    return "".join(traceback.format_exception(error))


def crash(error: Exception, debug: bool) -> int:
    """A mistake of ours: keep the traceback where it can be found, and say where."""
    import time

    from tfcluster import files
    from tfcluster.archive import home

    text = traceback_of(error)
    if debug:
        console.say(text)
    summary = f"{type(error).__name__}: {error}"
    path = home() / "crashes" / time.strftime("%Y%m%d-%H%M%S.txt")
    try:
        files.make_folder(path.parent)
        report = f"tfcluster {__version__}, Python {sys.version}\n\n{text}"
        files.write_bytes(path, report.encode("utf-8", "replace"))
        evidence = [f"  the traceback is in {path}"]
    except (OSError, TfclusterError):
        evidence = [text]
    hint = "this is a bug in tfcluster; with --debug the traceback is printed"
    console.show_error(TfclusterError(summary, evidence=evidence, hint=hint))
    return EXIT_TOOL
