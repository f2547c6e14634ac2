"""`tfcluster wait`: until the job has ended."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from tfcluster import console
from tfcluster.archive import Run
from tfcluster.commands import options
from tfcluster.commands.outcome import check_outcome, is_settled, summary
from tfcluster.errors import EXIT_OK, WaitTimeout
from tfcluster.events import JobStatus

EXAMPLES = (
    ("tfcluster up -d && tfcluster wait", "start now, look at the exit code later"),
    ("tfcluster wait --timeout 2h", "but no longer than this"),
)
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
    status = wait_for_end(found, limit)
    check_outcome(found, status)
    console.data(f"{found.job} (run {found.id}): {summary(found, status)}")
    return EXIT_OK


def wait_for_end(run: Run, limit: float | None) -> JobStatus:
    """How the run has ended; raises if it has not after so many seconds."""
    begun = time.monotonic()
    over_since: float | None = None
    while True:
        status = options.status_of(run)
        now = time.monotonic()
        if status.over:
            over_since = over_since or now
            if is_settled(run, status, over_since):
                return status
        if limit is not None and now - begun >= limit:
            raise WaitTimeout(
                f'job "{run.job}" has not ended after {limit:g} s ({status.state})',
                hint="it goes on: tfcluster status, tfcluster logs -f",
            )
        time.sleep(LOOK_EVERY)
