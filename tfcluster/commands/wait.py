"""`tfcluster wait`: until the job has ended."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from tfcluster import console
from tfcluster.commands import options
from tfcluster.commands.outcome import check_outcome, is_settled, summary
from tfcluster.errors import EXIT_OK, WaitTimeout

LOOK_EVERY = 0.3


def command(
    timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Give up after this, with exit code 4.")
    ] = None,
    file: options.File = None,
    job: options.Job = None,
    run: options.RunId = None,
) -> int:
    """Wait until the job has ended. Exit code 0 if it succeeded, 5 if not, 4 after --timeout."""
    limit = None if timeout is None else options.seconds(timeout, "--timeout")
    found = options.find_job_run(file, job, run)
    begun = time.monotonic()
    over_since: float | None = None
    while True:
        status = options.status_of(found)
        now = time.monotonic()
        if status.over:
            over_since = over_since or now
            if is_settled(found, status, over_since):
                break
        if limit is not None and now - begun >= limit:
            raise WaitTimeout(
                f'job "{found.job}" has not ended after {limit:g} s ({status.state})',
                hint="it goes on: tfcluster status, tfcluster logs -f",
            )
        time.sleep(LOOK_EVERY)
    check_outcome(status)
    console.data(f"{found.job} (run {found.id}): {summary(found, status)}")
    return EXIT_OK
