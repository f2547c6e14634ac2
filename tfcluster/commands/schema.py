"""`tfcluster schema`: the JSON Schema of cluster.yaml."""

from __future__ import annotations

from tfcluster.commands import options
from tfcluster.errors import EXIT_OK

EXAMPLES = (("tfcluster schema > .cluster.schema.json", "for an editor"),)


def command() -> int:
    """Print the JSON Schema of cluster.yaml, for editors and other programs."""
    from tfcluster.spec.model import json_schema

    options.print_json(json_schema())
    return EXIT_OK
