"""The control protocol under random deaths, replacements, pauses and cuts, by seeds.

A failing seed is named in the test's id; replay it alone, with every step printed by your own
additions to `world.py`: pytest tests/simulation -k 'seed-17-'
"""

from __future__ import annotations

import random

import pytest

from tests.simulation.world import START_TIMEOUT, Faults, World
from tfcluster.launch.exits import LINGER
from tfcluster.launch.neighbours import MOST_VISITORS
from tfcluster.launch.ranks import MOST_CHILDREN

SECONDS = 600.0  # of simulated time, by which every job must be over
AWAY = LINGER + 20.0  # who is away for so long at the end may miss it


def build(seed: int) -> World:
    pick = random.Random(f"faults {seed}")
    serving = {"ps"} if seed % 3 else set()
    size = pick.choice([1, 2, 3, 10, 40, 120])
    roles = {"ps": pick.choice([1, 2, 40]), "worker": size} if serving else {"worker": size}
    faults = Faults(
        kills=pick.choice([0, 1, 4]),
        pauses=pick.choice([0, 1, 3]),
        cuts=pick.choice([0, 1, 3]),
        failures=pick.choice([0, 0, 1, 3]),
    )
    return World(seed, roles, serving=serving, faults=faults)


def was_away(world: World, cause: dict) -> bool:
    node = world.nodes[world.names.index(cause["task"])]
    return node.disturbed_until > cause["time"]


def check(world: World) -> None:
    """The job is over, all agree how and why, and it cost each task little."""
    outcomes = {world.names[node.rank]: node.outcome for node in world.nodes}
    assert [name for name, outcome in outcomes.items() if outcome is None] == []
    ends = [node.left_at for node in world.nodes if node.left_at is not None]
    failures = [n.left_at for n in world.nodes if n.left_at and (n.outcome or "x")[0] == "failed"]
    # Who was away when it was decided, for longer than the hub stays, may not have heard of it.
    decided = min(failures, default=max(ends, default=0.0) - AWAY)
    present = [node for node in world.nodes if node.disturbed_until < decided]
    silent = [node for node in present if node.outcome == ("silence", None)]
    assert silent == [], "an undisturbed task was never told"
    verdicts = {node.outcome for node in present if node.outcome and node.outcome[0] == "failed"}
    assert len(verdicts) <= 1, f"several causes: {verdicts}"
    if verdicts:
        # A task that failed while it was cut off may have been heard of too late.
        heard = [cause for cause in world.failed if not was_away(world, cause)]
        latest = min((cause["time"] for cause in heard), default=float("inf"))
        possible = {c["task"] for c in world.failed if c["time"] <= latest}
        assert {task for _, task in verdicts} <= possible
    if not world.failed:
        assert verdicts == set()
        finished = {node.program for node in world.nodes if node.rank in world.required}
        assert finished == {"finished"}
    assert max(node.most_links for node in world.nodes) <= MOST_CHILDREN + MOST_VISITORS + 2


@pytest.mark.parametrize("seed", [pytest.param(n, id=f"seed-{n}-") for n in range(120)])
def test_a_job_ends_and_all_agree_how_and_why(seed):
    world = build(seed)
    world.run(SECONDS)
    check(world)


@pytest.mark.parametrize(
    ("few", "many"), [(400, 1200), pytest.param(1200, 3600, marks=pytest.mark.slow)]
)
def test_messages_and_connections_per_task_do_not_grow_with_the_number_of_tasks(few, many):
    sent, connects = {}, {}
    for size in (few, many):
        faults = Faults(kills=3, pauses=2, cuts=2)
        world = World(1, {"ps": 2, "worker": size}, serving={"ps"}, faults=faults)
        world.run(SECONDS)
        check(world)
        sent[size] = sum(node.sent for node in world.nodes) / len(world.nodes)
        connects[size] = max(node.connects for node in world.nodes)
    assert sent[many] < 1.2 * sent[few] and sent[many] < 60
    assert connects[many] < 120  # one that is cut off tries once in a while


@pytest.mark.slow
@pytest.mark.parametrize("seed", [pytest.param(n, id=f"seed-{n}-") for n in (1, 2)])
def test_ten_thousand_tasks_end_and_agree_whatever_befalls_them(seed):
    faults = Faults(kills=30, pauses=20, cuts=20, failures=seed - 1)
    world = World(seed, {"ps": 4, "worker": 9_996}, serving={"ps"}, faults=faults)
    world.run(SECONDS)
    check(world)
    assert sum(node.sent for node in world.nodes) / len(world.nodes) < 100


ALL_AT_ONCE = [(5, True), (60, True), (400, True), (5, False), (60, False), (200, False)]
MANY_AT_ONCE = [(1500, True), (1500, False)]


@pytest.mark.parametrize(
    ("size", "serving"),
    [*ALL_AT_ONCE, *(pytest.param(*entry, marks=pytest.mark.slow) for entry in MANY_AT_ONCE)],
)
def test_tasks_that_all_end_at_once_are_over_at_once(size, serving):
    roles = {"ps": 1, "worker": size} if serving else {"worker": size}
    world = World(7, roles, serving={"ps"} if serving else set(), faults=Faults(together=True))
    world.run(SECONDS)
    check(world)
    assert {node.outcome for node in world.nodes} == {("succeeded", None)}
    assert max(node.left_at or 0.0 for node in world.nodes) < 45


def test_a_program_that_has_succeeded_is_not_run_again_where_its_launcher_comes_back():
    world = World(5, {"ps": 1, "worker": 3}, serving={"ps"}, faults=Faults())
    worker = world.nodes[2]
    world.script[2] = (5.0, 0)
    world.script[3] = (200.0, 0)
    world.run(30)
    assert worker.outcome == ("succeeded", None) and worker.runs == 1
    worker.start()  # as a cluster does whose node was lost just before the pod's end was seen
    world.run(100)
    assert (worker.runs, worker.program) == (1, "finished")


def test_a_hub_that_was_cut_off_for_long_ends_by_its_own_deadline():
    world = World(3, {"ps": 1, "worker": 4}, serving={"ps"}, faults=Faults())
    world.after(10, world.cut_off(world.nodes[0], 10_000))
    world.run(70 + START_TIMEOUT + 60)
    assert world.nodes[0].outcome == ("silence", None)
    assert {node.outcome for node in world.nodes[1:]} == {("succeeded", None)}
