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

- YAML 1.2: `no` is a string, `1:30` is a string. Unknown and duplicate keys are errors.
- Durations: seconds (`90`) or units (`90s`, `2m`, `1h30m`).
- Sizes: Kubernetes quantities (`512Mi`, `2Gi`, `500M`) or bytes.
- A key with nothing after it (`env:`) is an empty section.
- In `env` and `args`, numbers are kept as they are written (`1.10` stays `1.10`); `true`, `false`
  and `null` must be quoted.
- A job has at most 100 roles and 20,000 tasks, 10,000 in a role.

## Templates

A spec is a Jinja2 template. `--var name=value` gives `{{ name }}` its value,
`{{ env("NAME", "default") }}` reads one environment variable, and a name that is not defined is an
error.

Such a value is data: wherever it stands, it is a part of one string or number, and never a key, a
list, a comment or a line of its own. A value that YAML would read as more is refused:

```yaml
env:
  GREETING: {{ greeting }}            # refused with --var greeting='a: b'
  GREETING: {{ greeting | tojson }}   # takes any text; no quotes around it
```

What is a list or a mapping has to be made by the template, as in
`args: {{ options.split(",") | tojson }}`, or given by `--set`.

Filters: {FILTERS}.

A template may use two seconds of CPU time and 256 MiB of memory, and print 1 MiB.

## Overrides

`--set roles.worker.replicas=4` changes one value after the template, typed by the tables below.
Where a string belongs, the value is taken as it is: `--set env.GREETING='a: b'`. Elsewhere it is
YAML, and may be a list or a mapping: `--set args='[--fast, --seed, 1]'`. A value of `null` removes
the key. List items are `volumes[0].target`, keys with dots may be quoted:
`kubernetes.pod_template."a.b"=c`.
"""

# Where each part is explained: title, path into the schema.
_SECTIONS: list[tuple[str, str, tuple[str | int, ...]]] = [
    ("The job", "", ()),
    ("A role", "roles.<role>", ("roles", "worker")),
    ("The bundled trainer", "train", ("train",)),
    ("Your program's files", "code", ("code",)),
    ("Results", "results", ("results",)),
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
