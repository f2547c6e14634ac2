"""A name is there once in a namespace: another folder's `up` is refused and touches nothing."""

from __future__ import annotations

import pytest

from tests.contract.jobs import Job
from tfcluster.backends.owner import Taken

SLEEP = "import time; print('up', flush=True); time.sleep(600)"


def test_up_from_another_folder_is_refused_with_both_places(job, tmp_path):
    job.up(job.spec(SLEEP, workers=1, ps=None))
    job.says("worker-0", b"up")
    (tmp_path / "b").mkdir()
    other = Job("kubernetes", tmp_path / "b")
    spec = {**job.spec(SLEEP, workers=2, ps=None), "name": job.name}
    with pytest.raises(Taken) as refused:
        other.up(spec)
    there, here = refused.value.evidence
    assert f"{tmp_path} (" in there and f"run {job.run.id}" in there
    assert f"{tmp_path / 'b'} (" in here
    assert job.task("worker-0").state == "running"
