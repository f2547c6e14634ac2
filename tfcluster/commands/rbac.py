"""`tfcluster rbac`: the least Role that tfcluster needs in a namespace."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

from tfcluster.errors import EXIT_OK

EXAMPLES = (
    ("tfcluster rbac -n team --user ann | kubectl apply -f -", "for ann"),
    ("tfcluster rbac -n team --service-account ci", "for a program"),
)


def command(
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", metavar="NAME", help="Where it applies.")
    ] = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="The Role's name.")] = "tfcluster",
    service_account: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Make this service account, and give it the Role."),
    ] = None,
    user: Annotated[
        str | None, typer.Option(metavar="NAME", help="Give this user the Role.")
    ] = None,
    gang: Annotated[
        Literal["native", "volcano", "coscheduling"] | None,
        typer.Option(help="With the rights for groups of this scheduler."),
    ] = None,
    queue: Annotated[
        bool, typer.Option("--queue", help="With the rights for kubernetes.queue (Kueue).")
    ] = False,
    nodes: Annotated[
        bool, typer.Option("--nodes", help="With the right to look at nodes, for tfcluster fit.")
    ] = False,
) -> int:
    """Print the least Role that tfcluster needs, for an administrator to look at and apply.

    tfcluster rbac -n team --user ann | kubectl apply -f -
    """
    from tfcluster.backends.kubernetes.rbac import render_rbac

    sys.stdout.write(
        render_rbac(
            namespace=namespace,
            name=name,
            service_account=service_account,
            user=user,
            gang=gang,
            queue=queue,
            nodes=nodes,
        )
    )
    return EXIT_OK
