"""A name is there once in a namespace: who may have it, and who is refused."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from tests.unit.fake_kube import FakeApi
from tfcluster.archive import Run, create_run
from tfcluster.backends.kubernetes.claim import claim, claim_of, ensure_free, removed
from tfcluster.backends.owner import Taken
from tfcluster.errors import TfclusterError

JOBS = "/apis/batch/v1/namespaces/default/jobs"
CLAIM = "/api/v1/namespaces/default/configmaps/mnist-claim"
COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}]}


@pytest.fixture
def make_run(tmp_path, monkeypatch):
    def made(folder: str, home: str = "home") -> Run:
        monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path / home))
        base = tmp_path / folder
        where: dict[str, Any] = {"folder": base, "base": base, "spec": None}
        return create_run("mnist", backend="kubernetes", source="", variables={}, **where)

    return made


def held_by(api: FakeApi) -> str:
    return api.objects[CLAIM]["metadata"]["labels"]["tfcluster.io/run"]


def put_job(api: FakeApi, run: str, status: dict[str, Any] | None = None) -> None:
    api.put(JOBS, "mnist-worker", status=status or {})
    labels = {"tfcluster.io/job": "mnist", "tfcluster.io/run": run}
    api.objects[f"{JOBS}/mnist-worker"]["metadata"]["labels"] = labels


def test_the_claim_of_a_run_says_where_it_was_brought_up_from(api, make_run, tmp_path):
    run = make_run("a")
    claim(api.cluster(), run)
    claim(api.cluster(), run)  # as often as one likes
    meta = api.objects[CLAIM]["metadata"]
    assert meta["annotations"]["tfcluster.io/folder"] == str(tmp_path / "a")
    assert "@" in meta["annotations"]["tfcluster.io/owner"]
    assert meta["labels"]["tfcluster.io/run"] == run.id


def test_another_folder_is_refused_while_the_job_runs_or_is_about_to(api, make_run, tmp_path):
    first, second = make_run("a"), make_run("b")
    claim(api.cluster(), first)
    for doing in ("is being brought up", "already runs"):
        for refused in (lambda: claim(api.cluster(), second), lambda: free(api, second)):
            with pytest.raises(Taken, match=doing) as error:
                refused()
            there, here = error.value.evidence
            assert f"{tmp_path / 'a'} (" in there and f"run {first.id}" in there
            assert f"{tmp_path / 'b'} (" in here
        assert held_by(api) == first.id
        put_job(api, first.id)


def free(api: FakeApi, run: Run) -> None:
    ensure_free(api.cluster(), run.place)


def test_another_state_folder_is_refused_as_well(api, make_run, tmp_path):
    claim(api.cluster(), make_run("a", "home"))
    with pytest.raises(Taken, match="from another state folder") as error:
        claim(api.cluster(), make_run("a", "other"))
    assert str(tmp_path / "home") in error.value.evidence[0]
    assert f"TFCLUSTER_HOME={tmp_path / 'home'} tfcluster down" in str(error.value.hint)


def test_what_has_ended_is_not_in_the_way(api, make_run):
    first, second = make_run("a"), make_run("b")
    claim(api.cluster(), first)
    put_job(api, first.id, COMPLETE)
    free(api, second)
    claim(api.cluster(), second)
    assert held_by(api) == second.id


def test_a_claim_without_jobs_is_left_over_after_a_while(api, make_run):
    first, second = make_run("a"), make_run("b")
    claim(api.cluster(), first)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 200))
    api.objects[CLAIM]["metadata"]["creationTimestamp"] = stamp
    claim(api.cluster(), second)
    assert held_by(api) == second.id


def test_an_earlier_run_of_ones_own_gives_way(api, make_run):
    first, second = make_run("a"), make_run("a")
    claim(api.cluster(), first)
    put_job(api, first.id)
    claim(api.cluster(), second)
    assert held_by(api) == second.id


def test_of_many_at_once_one_has_it(api, make_run):
    runs = [make_run(f"folder{n}") for n in range(8)]
    outcomes: list[str] = []

    def try_one(run: Run) -> None:
        try:
            claim(api.cluster(), run)
            outcomes.append(run.id)
        except Taken:
            outcomes.append("")

    threads = [threading.Thread(target=try_one, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(outcomes, key=bool) == [""] * 7 + [held_by(api)]


def test_only_the_claim_that_was_looked_at_is_removed(api, make_run):
    claim(api.cluster(), make_run("a"))
    old = api.objects.pop(CLAIM)["metadata"]["uid"]
    claim(api.cluster(), make_run("b"))
    removed(api.cluster(), CLAIM, old)
    assert CLAIM in api.objects


def test_jobs_that_nobody_claims_are_left_alone(api, make_run):
    """Rendered and applied by hand, or brought up by an older version."""
    api.fail("mnist-claim", 404, 404)
    put_job(api, "unknown")
    with pytest.raises(Taken) as error:
        free(api, make_run("a"))
    assert "kubectl delete" in str(error.value.hint)
    put_job(api, "unknown", COMPLETE)
    free(api, make_run("a"))


def test_a_config_map_of_somebody_else_is_not_taken(api, make_run):
    run = make_run("a")
    doc = claim_of(run)
    api.create(CLAIM.rpartition("/")[0], {**doc, "metadata": {**doc["metadata"], "labels": {}}})
    with pytest.raises(TfclusterError, match="not ours"):
        claim(api.cluster(), run)
