"""The kinds of values in a spec: how each may be written, and what a wrong one is told."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from tfcluster.escapes import visible
from tfcluster.quantities import BadQuantity, parse_duration, parse_quantity
from tfcluster.spec.yaml_scalars import core_text, plain

DNS_LABEL = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
ENV_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"


class Frozen(BaseModel):
    """A part of a spec: strict, frozen, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Quantity(str):
    """A size as it was written (`2Gi`), with its `bytes`."""

    __slots__ = ()

    @property
    def bytes(self) -> int:
        """The size in bytes."""
        return parse_quantity(self)


def wrong(message: str, hint: str | None = None) -> PydanticCustomError:
    """The error to raise in a validator; message and hint reach the person as they are."""
    return PydanticCustomError("wrong", "{message}", {"message": message, "hint": hint})


def shown(value: Any) -> str:
    """A value as messages quote it: short, on one line."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, str):
        text = visible(value)
        return f'"{text[:40]}…"' if len(text) > 40 else f'"{text}"'
    return "nothing" if value is None else core_text(value)


def _duration(value: Any) -> float:
    try:
        return parse_duration(value)
    except BadQuantity as error:
        raise wrong(f"{error}, got {shown(value)}", error.hint) from None


def _positive(seconds: float) -> float:
    if seconds == 0:
        raise wrong("a duration of zero leaves no time at all", "write seconds (90) or units (2m)")
    return seconds


def _quantity(value: Any) -> Quantity:
    try:
        parse_quantity(value)
    except BadQuantity as error:
        raise wrong(f"{error}, got {shown(value)}", error.hint) from None
    return Quantity(core_text(value).strip())


def _argument(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        text = core_text(value)
        raise wrong(f"expected a string, got {text}", f'quote it: "{text}"')
    return _scalar_text(value, "a string")


def _env_value(value: Any) -> str:
    if value is None:
        raise wrong("expected a string, got nothing", 'write "" for an empty value')
    if isinstance(value, bool):
        text = core_text(value)
        raise wrong(f"expected a string, got {text}", f'quote it: "{text}"')
    return _scalar_text(value, "a string")


def _scalar_text(value: Any, noun: str) -> str:
    if not isinstance(value, (str, int, float)):
        raise wrong(f"expected {noun}, got {shown(value)}")
    text = core_text(value)
    if "\0" in text:
        raise wrong("a string for a program cannot contain a NUL character")
    return text


def _argv(value: Any) -> Any:
    if isinstance(value, str):
        listed = ", ".join(value.split()[:4])
        more = ", …" if len(value.split()) > 4 else ""
        raise wrong(f"expected a list, got {shown(value)}", f"write [{listed}{more}]")
    return value


def _command(value: list[str]) -> list[str]:
    if not value or not value[0]:
        raise wrong("a command needs a program to run", "write [python, train.py]")
    return value


def nothing_is(empty: Callable[[], Any]) -> BeforeValidator:
    """Takes a key with nothing after it (`env:`) as an empty section."""
    return BeforeValidator(lambda value: empty() if value is None else value)


def matching(pattern: str, message: str, hint: str | None = None) -> AfterValidator:
    """Refuses a text that does not match, with the message instead of the pattern."""
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if compiled.fullmatch(value) is None:
            raise wrong(f"{message}, got {shown(value)}", hint)
        return value

    return AfterValidator(check)


def unpaired(value: str) -> str:
    """Refuses what no file or argument can hold: half a character, NUL."""
    if "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
        raise wrong("contains a character that cannot be used here")
    return value


_DURATION_SCHEMA = {
    "anyOf": [
        {"type": "number", "minimum": 0, "x-kind": "duration"},
        {
            "type": "string",
            "x-kind": "duration",
            "pattern": r"^[0-9.]+(d|h|m|s|ms)?([0-9.]+(h|m|s|ms))*$",
        },
    ]
}
_QUANTITY_SCHEMA = {
    "anyOf": [
        {"type": "integer", "minimum": 1, "x-kind": "size"},
        {
            "type": "string",
            "x-kind": "size",
            "pattern": r"^[0-9]+(\.[0-9]+)?([kMGTPE]|[KMGTPE]i|[eE][0-9]+)?$",
        },
    ]
}
_SCALAR_SCHEMA = {"type": ["string", "number"]}

Seconds = Annotated[float, BeforeValidator(_duration), WithJsonSchema(_DURATION_SCHEMA)]
Duration = Annotated[Seconds, AfterValidator(_positive)]
Size = Annotated[
    Quantity,
    PlainValidator(_quantity),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(_QUANTITY_SCHEMA),
]
Text = Annotated[str, Field(min_length=1), AfterValidator(unpaired)]
Argument = Annotated[str, BeforeValidator(_argument), WithJsonSchema(_SCALAR_SCHEMA)]
Arguments = Annotated[list[Argument], BeforeValidator(_argv), nothing_is(list)]
Command = Annotated[list[Argument], BeforeValidator(_argv), AfterValidator(_command)]
EnvName = Annotated[
    str,
    matching(ENV_NAME, "an environment variable is letters, digits and _, no digit first"),
]
EnvValue = Annotated[str, BeforeValidator(_env_value), WithJsonSchema(_SCALAR_SCHEMA)]
Env = Annotated[dict[EnvName, EnvValue], nothing_is(dict)]
Label = Annotated[
    Text,
    matching(
        DNS_LABEL,
        "expected lower-case letters, digits and -, a letter first, no - last",
        "for example mnist or my-job-2",
    ),
]
FreeForm = Annotated[dict[str, Any], AfterValidator(plain), nothing_is(dict)]
