"""`tfcluster help`: what `--help` says, for those who type it first."""

from __future__ import annotations

from typing import Annotated

import typer

from tfcluster import console
from tfcluster.errors import EXIT_OK

EXAMPLES = (
    ("tfcluster help", "every command"),
    ("tfcluster help up", "one command and its options"),
)


def complete_command(ctx: typer.Context, incomplete: str) -> list[str]:
    known = getattr(ctx.find_root().command, "commands", {})
    return [name for name in known if name.startswith(incomplete)]


def command(
    ctx: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(metavar="COMMAND", help="As in up.", autocompletion=complete_command),
    ] = None,
) -> int:
    """Show every command, or one command with its options. The same as --help."""
    root = ctx.find_root()
    if name is None:
        console.data(root.get_help())
        return EXIT_OK
    group = root.command
    _, found, _ = group.resolve_command(root, [name])  # type: ignore[attr-defined]
    settings = group.context_settings
    inner = typer.Context(found, info_name=name, parent=root, **settings)
    console.data(found.get_help(inner))
    return EXIT_OK
