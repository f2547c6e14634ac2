"""Which runs `rm` and `prune` remove, and what goes with them: tables of decisions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfcluster.archive import Run
from tfcluster.belongings import CLAIM, CONTAINER, VOLUME, Belonging
from tfcluster.cleaning import Candidate, Survey, choose_old, find_strays, plan_removal
from tfcluster.errors import MissingError
from tfcluster.place import place_of

DAY = 86400.0
NOW = 100 * DAY
A, B = ("docker", "unix:///a"), ("kubernetes", "kind/team")


def run(name: str, days: float = 10, *, job: str = "mnist", hosts=(A,), **more) -> Candidate:
    """A run that began, and ended, so many days ago."""
    place = place_of(job, "/home/ann")
    made = Run(job, name, Path("/state/jobs", place.key, "runs", name))
    moment = NOW - days * DAY
    return Candidate(made, place, "succeeded", moment, moment, over=True, hosts=hosts, **more)


def volume(run_id: str, job: str = "mnist", **more) -> Belonging:
    return Belonging(VOLUME, f"tfcluster-{job}-{run_id}", A[1], job, run_id, **more)


# -- Which runs


@pytest.mark.parametrize(
    ("older_than", "keep", "expected"),
    [
        (None, 1, ["b", "c", "d", "y"]),
        (None, 3, ["d"]),
        (None, 0, ["a", "b", "c", "d", "x", "y"]),
        (7 * DAY, 0, ["c", "d", "y"]),
        (7 * DAY, 3, ["d"]),
        (60 * DAY, 0, []),
    ],
)
def test_runs_are_chosen_by_age_and_number_for_each_job(older_than, keep, expected):
    runs = [run("a", 1), run("b", 5), run("c", 9), run("d", 20)]
    runs += [run("x", 2, job="other"), run("y", 30, job="other")]
    found = choose_old(runs, older_than=older_than, keep=keep, now=NOW)
    assert sorted(one.run.id for one in found) == expected


def test_what_runs_or_may_run_or_cannot_be_read_is_not_chosen():
    damaged = Candidate(run("d").run, run("d").place)
    runs = [run("a", live=True), run("b", problem=MissingError("away")), damaged, run("c", 20)]
    found = choose_old(runs, older_than=None, keep=0, now=NOW)
    assert [one.run.id for one in found] == ["c"]


def test_a_run_that_never_ended_is_as_old_as_its_beginning():
    began = run("a", 10)
    open_end = Candidate(began.run, began.place, "stopped", began.created)
    assert choose_old([open_end], older_than=7 * DAY, keep=0, now=NOW) == [open_end]
    assert choose_old([open_end], older_than=11 * DAY, keep=0, now=NOW) == []


# -- What goes with them


def test_a_run_goes_with_what_carries_its_labels():
    a, b = run("a"), run("b")
    survey = Survey({A: [volume("a"), volume("b"), volume("a", job="other")]})
    removal = plan_removal([a], [a, b], survey, force=False)
    assert (removal.runs, removal.belongings) == ((a,), ((A, volume("a")),))


def test_a_claim_goes_with_the_last_run_of_its_job():
    claim = Belonging(CLAIM, "mnist-output", B[1], "mnist")
    a, b, other = run("a", hosts=(B,)), run("b", hosts=(B,)), run("c", job="other", hosts=(B,))
    survey = Survey({B: [claim]})
    assert plan_removal([a], [a, b, other], survey, force=False).belongings == ()
    assert plan_removal([other], [a, b, other], survey, force=False).belongings == ()
    assert plan_removal([a, b], [a, b, other], survey, force=False).belongings == ((B, claim),)


def test_a_run_on_a_host_that_does_not_answer_stays_unless_it_is_forced():
    a, b, away = run("a"), run("b", hosts=(B,)), MissingError("no answer")
    survey = Survey({A: [volume("a")]}, {B: away})
    removal = plan_removal([a, b], [a, b], survey, force=False)
    assert (removal.runs, removal.blocked) == ((a,), ((b, away),))
    assert plan_removal([a, b], [a, b], survey, force=True).runs == (a, b)


def test_a_claim_that_a_blocked_run_needs_stays():
    claim = Belonging(CLAIM, "mnist-output", B[1], "mnist")
    a, b = run("a", hosts=(B,)), run("b", hosts=(B, A))
    survey = Survey({B: [claim]}, {A: MissingError("no answer")})
    assert plan_removal([a, b], [a, b], survey, force=False).belongings == ()


def test_sizes_are_added_up_as_far_as_they_are_known():
    a = run("a", size=1000)
    survey = Survey({A: [volume("a", size=500), Belonging(CONTAINER, "c", A[1], "mnist", "a")]})
    assert plan_removal([a], [a], survey, force=False).size == 1500


# -- Without a record


def test_what_has_no_record_here_is_ours_only_if_this_state_folder_made_it():
    ours, others, known = volume("x", home="me"), volume("y", home="you"), volume("a", home="me")
    unmarked = Belonging(VOLUME, "tfcluster-mnist-z", A[1], "mnist", "z")
    survey = Survey({A: [ours, others, known, unmarked]})
    own, left = find_strays(survey, {("mnist", "a")}, "me")
    assert [one for _, one in own] == [ours]
    assert [one for _, one in left] == [others, unmarked]


def test_what_goes_with_a_volume_of_ours_is_ours_too():
    container = Belonging(CONTAINER, "mnist-worker-0", A[1], "mnist", "x")
    survey = Survey({A: [volume("x", home="me"), container]})
    assert len(find_strays(survey, set(), "me")[0]) == 2


def test_nothing_of_a_run_that_is_at_work_is_a_stray():
    busy = Belonging(CONTAINER, "mnist-worker-0", A[1], "mnist", "x", active=True)
    survey = Survey({A: [volume("x", home="me"), busy]})
    assert find_strays(survey, set(), "me") == ([], [])


def test_a_claim_is_never_a_stray():
    survey = Survey({B: [Belonging(CLAIM, "mnist-output", B[1], "mnist")]})
    assert find_strays(survey, set(), "me") == ([], [])
