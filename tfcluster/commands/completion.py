"""`tfcluster completion`: what makes a shell complete commands, options, jobs and tasks."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from tfcluster import console
from tfcluster.errors import EXIT_OK, UsageError

EXAMPLES = (
    ("source <(tfcluster completion bash)", "put it into ~/.bashrc"),
    ("source <(tfcluster completion zsh)", "put it into ~/.zshrc"),
    ("tfcluster completion fish | source", "put it into config.fish"),
)
SHELLS = dict(zip(("bash", "zsh", "fish"), (line for line, _ in EXAMPLES), strict=True))
VARIABLE = "_TFCLUSTER_COMPLETE"  # set by the script when it asks for words
# zsh has no completion at all until this was called; the first line has to stay the first.
ZSH_START = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }"


def complete_shell(incomplete: str) -> list[str]:
    return [shell for shell in SHELLS if shell.startswith(incomplete)]


def command(
    shell: Annotated[
        str | None,
        typer.Argument(
            metavar="SHELL",
            help="bash, zsh or fish.  [default: $SHELL]",
            autocompletion=complete_shell,
        ),
    ] = None,
) -> int:
    """Print a script that makes a shell complete commands, options, jobs, tasks and runs.

    Names come from what is recorded on this machine; no cluster or engine is asked.
    """
    chosen = shell or os.path.basename(os.environ.get("SHELL", ""))
    if chosen not in SHELLS:
        problem = f'no completion for "{chosen}"' if chosen else "which shell?"
        known = ", ".join(SHELLS)
        raise UsageError(problem, hint=f"as in: tfcluster completion bash. Shells: {known}")
    console.data(script(chosen))
    if console.is_terminal(sys.stdout):
        console.say(f"Use it with: {SHELLS[chosen]}")
    return EXIT_OK


def script(shell: str) -> str:
    """The script, which calls tfcluster with VARIABLE set for every press of Tab."""
    from typer._completion_shared import get_completion_script

    text = get_completion_script(prog_name="tfcluster", complete_var=VARIABLE, shell=shell)
    return text.replace("\n", f"\n{ZSH_START}\n", 1) if shell == "zsh" else text
