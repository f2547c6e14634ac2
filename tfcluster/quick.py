"""Command-line values without pydantic.

typer checks every value through a pydantic TypeAdapter, which takes longer to import than most of
our commands take to run. Plain strings, lists of strings, choices and whole numbers need none of
it. Whatever else a parameter may be, or hold by mistake, still goes typer's way, so this changes
how quick a call is and nothing more.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from typer.core import TyperCommand

from tfcluster.errors import UsageError


class QuickParam:
    """Stands where typer keeps a parameter's coercion."""

    def __init__(self, descriptor: Any):
        self.descriptor = descriptor

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        many = param.multiple or param.nargs == -1
        if value is None:
            return () if many else None
        if self.plain(value):
            return value
        if self.is_whole_number(value):
            return int(value)
        from typer._coercion import build_runtime_param

        return build_runtime_param(self.descriptor).coerce(value, param=param, ctx=ctx)

    def is_whole_number(self, value: Any) -> bool:
        """Whether the value is the text of a whole number in the range that it has to be in."""
        if self.descriptor.annotation is not int:
            return False
        if not isinstance(value, str) or not value.isdecimal():
            return False
        info, number = self.descriptor.parameter_info, int(value)
        return (info.min is None or number >= info.min) and (info.max is None or number <= info.max)

    def plain(self, value: Any) -> bool:
        """Whether the value needs no conversion."""
        choices = self.descriptor.choices
        if choices is not None:
            return value in choices
        if self.descriptor.annotation == list[str]:
            return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
        return (
            isinstance(self.descriptor.annotation, type)
            and type(value) is self.descriptor.annotation
        )


def no_type(ctx: Any) -> None:
    return None


class QuickParameters:
    """For commands and groups: quick parameters, and a help text that is short and stable."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            # Only in versions of typer that would take the detour.
            if getattr(param, "_runtime_param", self) is None:
                param._runtime_param = QuickParam(param.type_descriptor)
            if param.param_type_name == "argument":
                # SPEC says more than `SPEC <str>`.
                param.display_type_rich = no_type
        return params

    def get_help_option_names(self, ctx: Any) -> list[str]:
        return sorted(super().get_help_option_names(ctx), key=len)  # type: ignore[misc]


class QuickCommand(QuickParameters, TyperCommand):
    """A command with quick parameters, examples below its options, and a word on stray words."""

    examples: Sequence[tuple[str, str]] = ()  # a command line, and what it does

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        if self.examples:
            width = max(len(line) for line, _ in self.examples)
            formatter.write("\nExamples:\n")
            for line, words in self.examples:
                formatter.write(f"  {line:{width}}  # {words}\n")

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.allow_extra_args = True  # refused below, with a better hint than typer's
        rest: list[str] = super().parse_args(ctx, args)
        if ctx.args and not ctx.resilient_parsing:
            raise unexpected(ctx, ctx.args[0])
        return rest


def is_path(word: str) -> bool:
    """Whether a word can only be a file or folder: no job, role or task is called like it."""
    return word.endswith((".yaml", ".yml")) or os.sep in word or word in (".", "..")


def unexpected(ctx: Any, word: str) -> UsageError:
    """A word that a command does not take: most often the spec or the job, without its option."""
    options = {name for param in ctx.command.params for name in param.opts}
    hint = f"see {ctx.command_path} --help"
    if is_path(word) and "--file" in options:
        hint = f"name the spec with --file: {ctx.command_path} --file {word}"
    elif "--job" in options:
        hint = f"if it is a job, name it with --job: {ctx.command_path} --job {word}"
    return UsageError(f'unexpected word "{word}"', hint=hint)
