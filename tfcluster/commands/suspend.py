"""`tfcluster suspend`: stop the job's pods and free their nodes, until resume."""

from __future__ import annotations

from tfcluster import console
from tfcluster.backends import load_backend
from tfcluster.commands import options
from tfcluster.errors import EXIT_OK
from tfcluster.joblock import job_lock

EXAMPLES = (
    ("tfcluster suspend", "this folder's job"),
    ("tfcluster suspend --job mnist", "a job by name"),
)


def command(file: options.File = None, job: options.Job = None) -> int:
    """Stop the pods of a job on Kubernetes and free their nodes. It goes on with: tfcluster resume.

    Programs are told to stop, as with down, and start again later from their checkpoints."""
    run = options.find_job_run(file, job)
    options.running(run)
    with job_lock(run.place, "suspend"):
        load_backend(run.backend).suspend(run, True)
    console.success("Suspended; its pods stop. Go on: tfcluster resume")
    return EXIT_OK
