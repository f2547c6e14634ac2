"""`tfcluster resume`: start the pods of a suspended job again."""

from __future__ import annotations

from tfcluster import console
from tfcluster.backends import load_backend
from tfcluster.commands import options
from tfcluster.errors import EXIT_OK
from tfcluster.joblock import job_lock

EXAMPLES = (
    ("tfcluster resume", "this folder's job"),
    ("tfcluster resume --job mnist", "a job by name"),
)


def command(file: options.File = None, job: options.Job = None) -> int:
    """Start the pods of a suspended job again; programs go on from their checkpoints."""
    run = options.find_job_run(file, job)
    options.running(run)
    with job_lock(run.place, "resume"):
        load_backend(run.backend).suspend(run, False)
    console.success("Resumed. Watch it: tfcluster logs -f, tfcluster status")
    return EXIT_OK
