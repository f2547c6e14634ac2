"""Pydantic's errors in the words that people get to read."""

from __future__ import annotations

import re
from typing import Any

from tfcluster.redaction import MASK, is_secret_path
from tfcluster.similar import did_you_mean, snake_case
from tfcluster.spec.field_types import shown
from tfcluster.spec.findings import Finding, Path, dotted
from tfcluster.spec.schema_walk import schema_at, sections_with
from tfcluster.spec.yaml_scalars import core_scalar

_EXPECTED = {
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "a string",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_LIMITS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("more than", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("less than", "lt"),
}
_EXAMPLES = {"name": "name: mnist", "roles": "roles: {worker: {replicas: 2}}"}
_YES = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}


def finding_of(error: Any, schema: dict[str, Any]) -> Finding:
    """One entry of `ValidationError.errors()` as a finding."""
    kind = error["type"]
    at_key = bool(error["loc"]) and error["loc"][-1] == "[key]"
    path: Path = tuple(error["loc"][:-1] if at_key else error["loc"])
    if kind == "extra_forbidden":
        return _unknown_key(path, schema)
    if kind == "missing":
        return _missing_key(path)
    message, hint = _value_message(error, path)
    if not path:
        return Finding(path, f"the spec: {message}", hint)
    return Finding(path, f"{dotted(path)}: {message}", hint, "key" if at_key else "value")


def unknown_key_hint(path: Path, schema: dict[str, Any]) -> str | None:
    """What the key at the end of `path` was probably meant to be."""
    key = str(path[-1])
    parent = schema_at(schema, path[:-1])
    known = parent.known() if parent is not None else {}
    ours = snake_case(key)
    if hint := did_you_mean(key, known):
        return hint
    if ours in schema["properties"]:
        return f'"{ours}" belongs at the top of the spec'
    if elsewhere := sections_with(schema, ours):
        return f'"{ours}" belongs under {" or ".join(elsewhere)}'
    return f"known here: {', '.join(known)}" if 0 < len(known) <= 12 else None


def _unknown_key(path: Path, schema: dict[str, Any]) -> Finding:
    return Finding(path, f'unknown key "{path[-1]}"', unknown_key_hint(path, schema), "key")


def _missing_key(path: Path) -> Finding:
    parent = dotted(path[:-1])
    message = f'{parent}: missing key "{path[-1]}"' if parent else f'missing key "{path[-1]}"'
    example = _EXAMPLES.get(str(path[-1])) if not parent else None
    return Finding(path, message, f"for example {example}" if example else None, "key")


def _value_message(error: Any, path: Path) -> tuple[str, str | None]:
    """What is wrong with the value, and what to write instead."""
    kind, value, context = error["type"], error["input"], error.get("ctx") or {}
    got = MASK if is_secret_path(path) else shown(value)
    if kind == "wrong":
        message = str(context["message"])
        if is_secret_path(path):
            message = message.replace(shown(value), MASK)
        return message, context.get("hint")
    if kind == "literal_error":
        choices = re.findall(r"'([^']*)'", context["expected"])
        hint = did_you_mean(str(value), choices) if isinstance(value, str) else None
        return f"expected one of {', '.join(choices)}, got {got}", hint
    if kind in _LIMITS:
        words, name = _LIMITS[kind]
        bound = context[name]
        bound = int(bound) if float(bound).is_integer() else bound
        return f"must be {words} {bound}, got {got}", None
    if kind == "string_too_short":
        return "must not be empty", None
    if kind in _EXPECTED:
        return f"expected {_EXPECTED[kind]}, got {got}", _type_hint(kind, value)
    return f"{error['msg']}, got {got}", None


def _type_hint(kind: str, value: Any) -> str | None:
    if kind in ("int_type", "float_type", "int_from_float"):
        return _number_hint(kind, value)
    if kind == "bool_type" and isinstance(value, str):
        return _bool_hint(value)
    if kind == "string_type" and value is not None and not isinstance(value, (list, dict)):
        return f'quote it: "{shown(value)}"'
    if kind == "list_type" and isinstance(value, (str, int, float)):
        return f"write [{value}]" if len(str(value)) < 40 else "write a list: [a, b]"
    return None


def _number_hint(kind: str, value: Any) -> str | None:
    if isinstance(value, str):
        number = core_scalar(value.strip())
        fits = isinstance(number, int) or (kind == "float_type" and isinstance(number, float))
        if fits and not isinstance(number, bool):
            return f"remove the quotes: {value.strip()}"
    if isinstance(value, float) and value == value and value.is_integer():
        return f"write {int(value)}" if abs(value) < 1e15 else None
    return None


def _bool_hint(value: str) -> str | None:
    if value.lower() in ("true", "false"):
        return f"remove the quotes: {value.lower()}"
    if value.lower() in _YES:
        return f"write {_YES[value.lower()]}"
    return None
