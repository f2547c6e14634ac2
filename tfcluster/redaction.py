"""Keeps secrets out of what people and logs get to see."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

MASK = "***"
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
# A name that has one of these holds a secret, unless its last word says that it is about one.
_STRONG = {
    *("secret", "secrets", "password", "passwd", "passphrase", "credential", "credentials"),
    *("apikey", "dsn", "token"),
}
_ABOUT = {
    *("size", "length", "len", "file", "path", "dir", "folder", "name", "names", "type", "count"),
    *("ttl", "expiry", "timeout", "policy", "method", "mode", "column", "field", "id", "ids"),
    *("url", "uri", "limit", "max", "min", "dim", "dims", "bits"),
}
# A name that ends in one of these holds one, unless the value is a switch or the word before it
# says otherwise.
_WEAK = {"key", "pass", "pwd", "auth", "authorization", "creds"}
_NO_SECRET_KEY = {
    *("primary", "sort", "partition", "foreign", "cache", "public", "feature", "features", "label"),
    *("labels", "image", "text", "input", "output", "target", "metric", "group", "row", "column"),
    *("lookup", "index", "data", "example", "id", "weight", "map"),
}
_NO_SECRET = {"PWD", "OLDPWD"}
_SWITCH = re.compile(r"|true|false|yes|no|on|off|none|null|[0-9]{1,4}", re.IGNORECASE)
# user:password@ in a URL, and what follows Bearer in a header.
_USER_INFO = re.compile(r"(?<=://)([^\s/@:]{0,200}):([^\s/@]{1,500})@")
_BEARER = re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]{6,}", re.IGNORECASE)
# --password x, --password=x and PASSWORD=x inside a longer text, as in sh -c "…".
_INSIDE = re.compile(
    r"((?:(?<=\s)|^)--?[\w.-]{1,100}[= ]\s{0,20}|\b[A-Za-z_]\w{0,100}=)"
    r"""("[^"]*"|'[^']*'|[^\s;&|]+)"""
)
_CANDIDATE = re.compile(
    r"secret|token|passw|passphrase|credential|key|pass|pwd|auth|creds|dsn", re.IGNORECASE
)
_KEY = re.compile(r"""^(\s*(?:-\s+)*)["']?([\w./-]+)["']?\s*:(?:\s|$)""")
# Bounded, so that a long line of a hostile file costs no more than its length.
_REST_OF_KEY = re.compile(r"""[\w.-]{0,100}["']?[ \t]{0,100}[:=][ \t]{0,100}(?=\S)""")
_START_OF_KEY = re.compile(r"[\w.-]{0,100}$")
_ENDS_IN_SECRET = re.compile(
    r"""(?:token|passw(?:or)?d|credential|api[-_]?key)[\w.-]{0,100}["']?[ \t]{0,100}:\s*$""",
    re.IGNORECASE,
)
# These keys of the spec hold the name of a secret, not the secret itself.
_REFERENCES = {"secret", "secrets"}


def looks_secret(name: str, value: str = "x") -> bool:
    """Whether a variable or flag of this name probably holds a secret."""
    if _CANDIDATE.search(name) is None or name in _NO_SECRET:
        return False
    words = [word.lower() for word in _WORDS.findall(name) if not word.isdigit()]
    if not words or words[-1] in _ABOUT:
        return False
    if _STRONG & set(words) or "apikey" in "".join(words):
        return True
    if any(word.endswith(("password", "passwd", "secret", "token")) for word in words):
        return True
    if words[-1] not in _WEAK or _SWITCH.fullmatch(value):
        return False
    return words[-1] != "key" or not _NO_SECRET_KEY & set(words[-2:-1])


def masked_text(text: str) -> str:
    """A text with the secrets masked that are marked as such inside it."""
    text = _USER_INFO.sub(lambda match: f"{match[1]}:{MASK}@", text)
    text = _BEARER.sub(lambda match: f"{match[1]} {MASK}", text)
    if _CANDIDATE.search(text) is None:
        return text

    def one(match: re.Match[str]) -> str:
        name = match[1].rstrip("= \t").lstrip("-")
        return match[1] + MASK if looks_secret(name, match[2].strip("\"'")) else match[0]

    return _INSIDE.sub(one, text)


def masked_value(name: str, value: str) -> str:
    """The value of a variable as it may be shown."""
    return MASK if looks_secret(name, value) else masked_text(value)


def is_harmless(name: str, value: str) -> bool:
    """Whether the value of a variable may be kept and shown as it is."""
    return masked_value(name, value) == value


def redacted(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a spec's dict with the values of secret-looking variables and flags masked."""
    return {str(key): _redacted(value, str(key)) for key, value in spec.items()}


def _redacted(value: Any, key: str) -> Any:
    if isinstance(value, Mapping):
        if key == "env":
            return {str(k): masked_value(str(k), str(v)) for k, v in value.items()}
        copy = {str(k): _redacted(v, str(k)) for k, v in value.items()}
        if isinstance(copy.get("value"), str):
            copy["value"] = masked_value(str(copy.get("name", "")), copy["value"])
        return copy
    if isinstance(value, (list, tuple)):
        if key in {"args", "command"}:
            return redacted_argv(value)
        return [_redacted(item, "") for item in value]
    return _USER_INFO.sub(lambda m: f"{m[1]}:{MASK}@", value) if isinstance(value, str) else value


def redacted_argv(argv: Sequence[Any]) -> list[Any]:
    """The arguments with `--token=x` and `--token x` masked."""
    out: list[Any] = []
    flag = ""
    for argument in argv:
        text = str(argument)
        name, equals, value = text.partition("=")
        if flag and not text.startswith("-") and looks_secret(flag, text):
            out.append(MASK)
        elif equals and " " not in name and looks_secret(name, value):
            out.append(f"{name}={MASK}")
        else:
            out.append(masked_text(argument) if isinstance(argument, str) else argument)
        flag = text.lstrip("-") if text.startswith("-") and not equals and " " not in text else ""
    return out


def is_secret_path(path: Sequence[str | int]) -> bool:
    """Whether the value at this path of a spec must not be shown."""
    keys = [part for part in path if isinstance(part, str)]
    return any(
        looks_secret(key) and (key not in _REFERENCES or "env" in keys[:index])
        for index, key in enumerate(keys)
    )


def masked_line(lines: Sequence[str], index: int) -> str:
    """Line `index` of a YAML text, fit to be shown: a secret's value is masked.

    A value that continues on later lines belongs to the key above it with less indentation.
    """
    line = lines[index]
    owners = _owner_keys(lines, index)
    if is_secret_path(owners) or (index and _ENDS_IN_SECRET.search(lines[index - 1])):
        return line[: len(line) - len(line.lstrip())] + MASK
    for found in _CANDIDATE.finditer(line):
        rest = _REST_OF_KEY.match(line, found.end())
        if rest is not None:
            start = _START_OF_KEY.search(line[max(0, found.start() - 100) : found.start()])
            key = (start[0] if start else "") + line[found.start() : rest.end()].rstrip(" \t:=\"'")
            key = key.lstrip("-")
            value = line[rest.end() :].strip(" \"',}]")
            if looks_secret(key, value) and (key not in _REFERENCES or "env" in owners):
                return line[: rest.end()] + MASK
    return _FLAG_ITEM.sub(_mask_flag_item, masked_text(line))


# --password, x in a list of arguments.
_FLAG_ITEM = re.compile(
    r"""(["']?--?([\w.-]{1,100})["']?\s{0,20},\s{0,20})("[^"]*"|'[^']*'|[^\s,\]]+)"""
)


def _mask_flag_item(match: re.Match[str]) -> str:
    return match[1] + MASK if looks_secret(match[2], match[3].strip("\"'")) else match[0]


def masked_override(text: str) -> str:
    """What may be kept and shown of `--set PATH=VALUE`: no value if there is a secret in it."""
    path, equals, value = text.partition("=")
    if looks_secret(path, value) or masked_line([text], 0) != text:
        return f"{path}={MASK}" if equals else MASK
    return text


def is_masked_override(text: str) -> bool:
    """Whether the value of this one was not kept."""
    return text.partition("=")[2] == MASK


def _owner_keys(lines: Sequence[str], index: int) -> list[str]:
    """The keys that line `index` is nested under, outermost first."""
    owners: list[str] = []
    indent = len(lines[index]) - len(lines[index].lstrip())
    for line in reversed(lines[:index]):
        if indent == 0:
            break
        match = _KEY.match(line)
        if match is not None and len(match[1]) < indent:
            owners.insert(0, match[2])
            indent = len(line) - len(line.lstrip())
    return owners
