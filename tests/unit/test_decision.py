"""What `up` does: the table, and that `diff` announces exactly what `up` then does."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.recording import RecordingBackend, write_checkpoint
from tests.unit.records import plan, role
from tfcluster import decision
from tfcluster.checkpoints import Checkpoint, newest_checkpoint
from tfcluster.commands.diff import announced, document
from tfcluster.converge import deploy, preview
from tfcluster.decision import Decision, Running, Saved, Trainer, decide
from tfcluster.plan import Plan
from tfcluster.spec.loader import load_spec
from trainer.checkpoint import Checkpoints
from trainer.state import Snapshot

# -- The table -----------------------------------------------------------------------------------


def planned(digests: dict[str, str], backend: str = "local") -> Plan:
    """A plan of one task per role, which differ by these."""
    roles = tuple(replace(role(name, 1), digest=digest) for name, digest in digests.items())
    return replace(plan(**dict.fromkeys(digests, 1)), roles=roles, backend=backend)


OLD = {"ps": "a", "worker": "a"}


def running(*open_tasks: str) -> Running:
    return Running("7f3a", "local", planned(OLD), open_tasks or ("ps-0", "worker-0"))


@pytest.mark.parametrize(
    ("there", "wanted", "same_run", "kind", "ends", "disturbs"),
    [
        (None, planned(OLD), False, decision.START, None, ()),
        (running(), planned(OLD), False, decision.NOTHING, None, ()),
        (running(), planned(OLD), True, decision.NOTHING, None, ()),
        (running(), planned({**OLD, "worker": "b"}), False, decision.CHANGE, None, ("worker-0",)),
        (running("ps-0"), planned({**OLD, "worker": "b"}), False, decision.CHANGE, None, ()),
        (running(), planned({**OLD, "chief": "a"}), False, decision.CHANGE, None, ()),
        (running(), planned({"ps": "a"}), False, decision.CHANGE, None, ("worker-0",)),
        (
            running(),
            planned({"ps": "b", "worker": "b"}),
            False,
            decision.REPLACE,
            "7f3a",
            ("ps-0", "worker-0"),
        ),
        (
            running(),
            planned({"ps": "b", "worker": "b"}),
            True,
            decision.CHANGE,
            None,
            ("ps-0", "worker-0"),
        ),
        (running("ps-0"), planned(OLD, "docker"), False, decision.REPLACE, "7f3a", ("ps-0",)),
        (running("ps-0"), planned(OLD, "docker"), True, decision.REPLACE, "7f3a", ("ps-0",)),
    ],
)
def test_what_up_does_follows_from_what_runs(there, wanted, same_run, kind, ends, disturbs):
    found = decide(there, wanted, same_run=same_run)
    assert (found.kind, found.ends, found.disturbs) == (kind, ends, disturbs)


CUT_SHORT = Checkpoint(12, 640, "earlier", False, {"model": "mlp"})
FINISHED = replace(CUT_SHORT, finished=True)
OTHER = Trainer("auto", {"model": "cnn"})


@pytest.mark.parametrize(
    ("trainer", "lasting", "kind"),
    [
        (None, None, decision.PROGRAMS),
        (Trainer(), None, decision.AGAIN),
        (Trainer(), Saved("/c"), decision.AGAIN),
        (Trainer(), Saved("/c", newest=CUT_SHORT), decision.RESUMES),
        (Trainer(), Saved("/c", newest=FINISHED), decision.AGAIN),
        (Trainer("always"), Saved("/c", newest=FINISHED), decision.RESUMES),
        (Trainer("never"), Saved("/c", newest=CUT_SHORT), decision.AGAIN),
        (Trainer(), Saved("a volume", visible=False), decision.UNSEEN),
        (OTHER, Saved("/c", newest=CUT_SHORT), decision.REFUSED),
        (Trainer("auto", {"model": None}), Saved("/c", newest=CUT_SHORT), decision.RESUMES),
    ],
)
@pytest.mark.parametrize("there", [None, running()])
def test_what_a_new_run_goes_on_from(there, trainer, lasting, kind):
    wanted = planned({"ps": "b", "worker": "b"})
    assert decide(there, wanted, trainer=trainer, lasting=lasting).training.kind == kind


@pytest.mark.parametrize(
    ("changed", "own", "kind"),
    [
        ({"worker": "b"}, Saved("/c", newest=CUT_SHORT), decision.GOES_ON),
        ({"ps": "b"}, Saved("/c", newest=FINISHED), decision.RESUMES),
        ({"ps": "b"}, Saved("/c"), decision.AGAIN),
        ({"ps": "b"}, None, decision.AGAIN),
        ({"ps": "b"}, Saved("a volume", visible=False), decision.UNSEEN),
    ],
)
def test_what_a_changed_run_goes_on_from(changed, own, kind):
    found = decide(running(), planned({**OLD, **changed}), trainer=Trainer(), own=own)
    assert (found.kind, found.training.kind) == (decision.CHANGE, kind)


def test_the_announcement_says_whether_the_training_starts_again():
    wanted = planned({"ps": "b", "worker": "b"})

    def said(lasting: Saved | None = None) -> str:
        return announced(decide(running(), wanted, trainer=Trainer(), lasting=lasting), (), "m")

    assert said() == "up would end run 7f3a and start 2 tasks in a new run; training starts again."
    assert said(Saved("/c", newest=CUT_SHORT)).endswith(
        "; training goes on from checkpoint 12 (global step 640)."
    )


def test_checkpoints_are_read_as_the_trainer_writes_them(tmp_path):
    snapshot = Snapshot(np.zeros(5), np.zeros((2, 5)), 640, np.array([3, 4]))
    meta = {"run": "r1", "finished": True, "model": "cnn", "hidden": [3], "seconds": 1.5}
    folder = Checkpoints(tmp_path, keep=2)
    for _ in range(3):
        folder.save(snapshot, meta)
    expected = Checkpoint(3, 640, "r1", True, {"model": "cnn", "hidden": [3]})
    assert newest_checkpoint(tmp_path) == expected
    (tmp_path / "checkpoint-000003.npz").write_bytes(b"PK\x03\x04 and nothing more")
    assert newest_checkpoint(tmp_path) == replace(expected, number=2)
    assert newest_checkpoint(tmp_path / "nothing") is None


# -- What is announced is what is done -----------------------------------------------------------

DEPLOYED = st.fixed_dictionaries(
    {
        "workers": st.integers(1, 3),
        "ps": st.integers(0, 1),
        "env": st.sampled_from(["", "1", "2"]),
        "restarts": st.sampled_from([0, 3]),
        "memory": st.sampled_from([None, "1Gi"]),
        "rate": st.sampled_from([0.1, 0.2]),
        "checkpoints": st.sampled_from([None, "kept"]),
        "trains": st.booleans(),
        "resume": st.sampled_from(["auto", "never"]),
        "backend": st.sampled_from(["local", "local", "docker"]),
        # What happens before it is deployed:
        "saved": st.booleans(),  # a checkpoint, by the run that is there
        "finished": st.sets(st.sampled_from(["worker-0", "worker-1", "ps-0"])),
    }
)


def spec_of(drawn: dict[str, Any]) -> dict[str, Any]:
    env = {"X": drawn["env"]} if drawn["env"] else {}
    worker = {"replicas": drawn["workers"], "env": env}
    worker |= {"memory": drawn["memory"]} if drawn["memory"] else {}
    roles: dict[str, Any] = {"worker": worker}
    if drawn["ps"]:
        roles["ps"] = {"replicas": 1}
    program: dict[str, Any] = {"command": ["true"], "args": [str(drawn["rate"])]}
    program |= {"image": "python"} if drawn["backend"] == "docker" else {}
    if drawn["trains"]:
        algorithm = "hogwild" if drawn["ps"] else "allreduce"
        program = {"train": {"learning_rate": drawn["rate"], "resume": drawn["resume"]}}
        program["train"]["algorithm"] = algorithm
    kept = {"checkpoints": drawn["checkpoints"]} if drawn["checkpoints"] else {}
    settings = {"restarts": drawn["restarts"], "backend": drawn["backend"], **kept}
    return {"name": "mnist", "roles": roles, **program, **settings}


@contextmanager
def world():
    """Two backends that start nothing, and a folder."""
    backends = {name: RecordingBackend(name) for name in ("local", "docker")}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        home = {"TFCLUSTER_HOME": str(folder / "home")}
        with (
            mock.patch.dict(os.environ, home),
            mock.patch("tfcluster.converge.load_backend", backends.__getitem__),
        ):
            yield folder, backends


@settings(max_examples=40, deadline=None)
@given(st.lists(DEPLOYED, min_size=1, max_size=4))
def test_diff_announces_what_up_then_does(deployed):
    with world() as (folder, backends):
        checkpoints: Path | None = None
        for number, drawn in enumerate(deployed, start=1):
            path = folder / "cluster.yaml"
            path.write_text(json.dumps(spec_of(drawn)))
            for backend in backends.values():
                backend.calls, backend.succeeded = [], drawn["finished"]
            if drawn["saved"] and checkpoints is not None:
                write_checkpoint(checkpoints, number, 100 * number, model="mlp")
            loaded = load_spec(path)
            foretold = document(preview(loaded))
            before = {name: list(one.calls) for name, one in backends.items()}
            assert before == {"local": [], "docker": []}, "a preview changes nothing"
            made = deploy(loaded, folder=folder)
            calls = [call for name in backends for call in backends[name].calls]
            compare_with_calls(foretold, made, calls)
            compare_training(foretold, drawn, Path(made.plan.checkpoints or ""))
            checkpoints = Path(made.plan.checkpoints or "")


def compare_with_calls(foretold: dict[str, Any], made: Any, calls: list[Any]) -> None:
    ended = [run for name, run, _ in calls if name == "delete"]
    applied = [(run, changes) for name, run, changes in calls if name == "apply"]
    assert ended == ([foretold["ends"]] if foretold["ends"] else [])
    assert foretold["action"] in ("nothing", "start", "change", "replace")
    if foretold["action"] == "nothing":
        assert (calls, foretold["disturbs"]) == ([], [])
        return
    ((run, changes),) = applied
    assert run == made.run.id
    said = {change["task"]: change["action"] for change in foretold["changes"]}
    done = {change.task: change.action for change in changes}
    if foretold["action"] == "change":
        assert done == said
        assert run not in ended
        disturbed = {task for task, action in done.items() if action in ("replace", "remove")}
        assert set(foretold["disturbs"]) <= disturbed
    else:
        assert set(done.values()) == {"create"}
        assert done.keys() == {task for task, action in said.items() if action != "remove"}
        assert run != foretold["ends"]


def compare_training(foretold: dict[str, Any], drawn: dict[str, Any], folder: Path) -> None:
    """What the trainer finds where it will look is what was said."""
    training = foretold["training"]
    if foretold["action"] == "nothing" or not drawn["trains"]:
        return
    found = newest_checkpoint(folder)
    if training["kind"] == decision.RESUMES:
        assert found is not None and found.number == training["checkpoint"]
    elif training["kind"] == decision.AGAIN:
        assert found is None or drawn["resume"] == "never"
    else:
        assert (training["kind"], foretold["action"]) == (decision.GOES_ON, "change")


def test_a_folder_of_checkpoints_that_is_chosen_later_is_a_change():
    """The programs learn it when they start, so it cannot be changed behind their backs."""
    with world() as (folder, _):
        path = folder / "cluster.yaml"
        kinds: list[Decision] = []
        for place in (None, "kept", "kept", "elsewhere"):
            chosen = {"checkpoints": place} if place else {}
            spec = {"name": "m", "command": ["true"], "roles": {"worker": {"replicas": 1}}}
            path.write_text(json.dumps({**spec, **chosen}))
            kinds.append(preview(load_spec(path)).decision)
            deploy(load_spec(path), folder=folder)
        assert [one.kind for one in kinds] == ["start", "replace", "nothing", "replace"]
