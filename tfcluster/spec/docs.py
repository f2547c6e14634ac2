"""Writes docs/spec.md from the spec's schema: `python -m tfcluster.spec.docs`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfcluster.spec.model import json_schema
from tfcluster.spec.schema_walk import SchemaNode

TARGET = Path(__file__).parent.parent.parent / "docs" / "spec.md"

_INTRO = """# The spec

Every key of a `cluster.yaml`. This page is written by `python -m tfcluster.spec.docs`.

A spec is a Jinja2 template whose output is YAML 1.2: `no` is a string, `1:30` is a string.
`--var name=value` gives `{{ name }}` its value, `{{ env("NAME", "default") }}` reads one
environment variable, and a name that is not defined is an error.

Filters: {FILTERS}.

`--set roles.worker.replicas=4` changes one value after that, typed by the tables below; a value
of `null` removes the key. List items are `volumes[0].target`, keys with dots may be quoted:
`kubernetes.pod_template."a.b"=c`. Unknown keys are errors.

- Durations: seconds (`90`) or units (`90s`, `2m`, `1h30m`).
- Sizes: Kubernetes quantities (`512Mi`, `2Gi`, `500M`) or bytes.
- A key with nothing after it (`env:`) is an empty section.
- In `env` and `args`, numbers are kept as they are written (`1.10` stays `1.10`); `true`, `false`
  and `null` must be quoted.
"""

# Where each part is explained: title, path into the schema.
_SECTIONS: list[tuple[str, str, tuple[str | int, ...]]] = [
    ("The job", "", ()),
    ("A role", "roles.<role>", ("roles", "worker")),
    ("The bundled trainer", "train", ("train",)),
    ("Restarts", "restarts", ("restarts",)),
    ("A volume", "volumes[]", ("volumes", 0)),
    ("A source of variables", "env_from[]", ("env_from", 0)),
    ("Ports", "ports", ("ports",)),
    ("Pulling images", "image_pull", ("image_pull",)),
    ("The local backend", "local", ("local",)),
    ("The docker backend", "docker", ("docker",)),
    ("A Docker host", "docker.hosts[]", ("docker", "hosts", 0)),
    ("The kubernetes backend", "kubernetes", ("kubernetes",)),
    ("A toleration", "kubernetes.tolerations[]", ("kubernetes", "tolerations", 0)),
    ("A resource claim", "kubernetes.resource_claims[]", ("kubernetes", "resource_claims", 0)),
]


def spec_docs() -> str:
    """The whole page."""
    from tfcluster.spec.template_sandbox import SpecEnvironment

    filters = sorted(name for name in SpecEnvironment({}).filters if " " not in name)
    schema = json_schema()
    lines = [_INTRO.replace("{FILTERS}", ", ".join(f"`{name}`" for name in filters))]
    for title, key, path in _SECTIONS:
        node: SchemaNode | None = SchemaNode(schema, schema)
        for part in path:
            node = node.child(part) if node is not None else None
        if node is None:
            raise KeyError(key)
        lines.extend(_section(title, key, node))
    return "\n".join(lines)


def _section(title: str, key: str, node: SchemaNode) -> Iterator[str]:
    yield f"## {title}{f' (`{key}`)' if key else ''}\n"
    required = {name for schema in node.alternatives() for name in schema.get("required", [])}
    yield "| key | value | default | |"
    yield "|---|---|---|---|"
    for name, schema in node.known().items():
        default = "required" if name in required else _default(schema)
        kind = kind_of(SchemaNode(node.root, schema))
        yield f"| `{name}` | {kind} | {default} | {_cell(schema)} |"
    yield ""


def kind_of(node: SchemaNode) -> str:
    """A place's type in words, fit for a table's cell."""
    kinds: list[str] = []
    for schema in node.alternatives():
        kind = _plain_kind(node, schema)
        if kind and kind not in kinds:
            kinds.append(kind)
    return " or ".join(kinds) or "anything"


def _plain_kind(node: SchemaNode, schema: dict[str, Any]) -> str:
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{choice}`" for choice in schema.get("enum", [schema.get("const")]))
    if "x-kind" in schema:
        return str(schema["x-kind"])
    kind = schema.get("type")
    if isinstance(kind, list):
        return "string"
    if kind == "array":
        return f"list of {kind_of(SchemaNode(node.root, schema.get('items', {})))}"
    if kind == "object":
        return "mapping"
    names = {"null": "", "boolean": "`true`, `false`", "number": "number", "integer": "integer"}
    return names.get(str(kind), "string") + _limits(schema)


def _limits(schema: dict[str, Any]) -> str:
    bounds = [
        f"{sign} {schema[name]}"
        for name, sign in (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"))
        if name in schema
    ]
    return f" {', '.join(bounds)}" if bounds else ""


def _cell(schema: dict[str, Any]) -> str:
    return str(schema.get("description", "")).replace("|", "\\|")


def _default(schema: dict[str, Any]) -> str:
    value = schema.get("default")
    if value in (None, {}, []) or isinstance(value, dict):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`"


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(spec_docs(), encoding="utf-8")
    sys.stderr.write("docs/spec.md is written\n")
