"""Command-line values without pydantic.

typer checks every value through a pydantic TypeAdapter, which takes longer to import than most of
our commands take to run. Plain strings, lists of strings, choices and whole numbers need none of
it. Whatever else a parameter may be, or hold by mistake, still goes typer's way, so this changes
how quick a call is and nothing more.
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand


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
        if self.descriptor.annotation is int and isinstance(value, str) and value.isdecimal():
            return int(value)
        from typer._coercion import build_runtime_param

        return build_runtime_param(self.descriptor).coerce(value, param=param, ctx=ctx)

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
    """A command with quick parameters."""
