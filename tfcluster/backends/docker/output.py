"""What tasks on Docker have written, read from their volumes whether they run or not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from tfcluster.archive import Run
from tfcluster.backends.docker.containers import api_mount, container_of, labels
from tfcluster.backends.docker.engines import Engine, translated
from tfcluster.backends.docker.lifecycle import remove_container
from tfcluster.fetching import Output
from tfcluster.launch.plan import output_of
from tfcluster.plan import Plan


def output_archive(engine: Engine, run: Run, plan: Plan, task: str) -> Output:
    """A task's folder, through a container that has its mounts and never runs."""
    path = output_of(plan.launch(run.id), task)
    return Output(pieces(engine, run, plan, task, path), PurePosixPath(path).name)


def pieces(engine: Engine, run: Run, plan: Plan, task: str, path: str) -> Iterator[bytes]:
    from docker.errors import NotFound

    model = container_of(plan, run.id, task)
    mounts = [{**api_mount(mount), "ReadOnly": True} for mount in model.mounts]
    with translated(engine, f"the results of {task}"):
        made = engine.api.create_container(
            model.image,
            entrypoint=["/tfcluster-helper"],
            labels=labels(plan, run.id),
            host_config=engine.api.create_host_config(mounts=mounts, network_mode="none"),
        )
        try:
            stream, _ = engine.api.get_archive(made["Id"], path)
            yield from stream
        except NotFound:
            return  # nothing was written
        finally:
            remove_container(engine, made["Id"])
