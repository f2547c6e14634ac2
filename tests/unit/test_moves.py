"""Forty wrong moves, and what is printed: where, what, next, and never a traceback.

`TFCLUSTER_WRITE_MOVES=1 pytest tests/unit/test_moves.py` writes the goldens again; read them then.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.unit.records import write_run
from tfcluster.cli import main

GOLDEN = Path(__file__).parent.parent / "golden" / "moves"
GOOD = "name: toy\ncommand: [sleep, '1']\nroles:\n  worker: {replicas: 2}\n"
TRAIN = "name: toy\ntrain: {algorithm: hogwild, model: mlp}\nroles:\n  ps: {}\n  worker: {}\n"

# name, command line, cluster.yaml (None: no file)
MOVES: tuple[tuple[str, str, str | bytes | None], ...] = (
    ("unknown-command", "stauts", None),
    ("word-of-another-tool", "stop", None),
    ("unknown-option", "up --detatch", GOOD),
    ("stray-word", "down mnist", None),
    ("no-spec-here", "up", None),
    ("spec-that-is-not-there", "up other.yaml", None),
    ("folder-without-a-spec", "validate sub", None),
    ("two-specs", "validate a.yaml -f b.yaml", None),
    ("empty-file", "validate", ""),
    ("binary-file", "validate", b"\x00\x01\xff\xfe\x80"),
    ("tabs", "validate", "name: toy\nroles:\n\tworker: {}\n"),
    ("not-a-mapping", "validate", "- a\n- b\n"),
    ("duplicate-key", "validate", "name: toy\nname: other\ncommand: [ls]\nroles: {worker: {}}\n"),
    ("unknown-key", "validate", GOOD.replace("replicas", "replica")),
    ("missing-key", "validate", "command: [ls]\nroles: {worker: {}}\n"),
    ("wrong-type", "validate", GOOD.replace("2}", "two}")),
    ("wrong-name", "validate", GOOD.replace("toy", "My Job")),
    ("nothing-to-run", "validate", "name: toy\nroles: {worker: {}}\n"),
    ("unknown-algorithm", "validate", TRAIN.replace("hogwild", "hogwld")),
    ("unknown-model", "validate", TRAIN.replace("mlp", "resnet")),
    ("hogwild-without-a-ps", "validate", TRAIN.replace("  ps: {}\n", "")),
    ("wrong-duration", "validate", GOOD + "deadline: soon\n"),
    ("wrong-quantity", "validate", GOOD.replace("2}", "2, memory: lots}")),
    ("wrong-ports", "validate", GOOD + 'local: {port_range: "99-70000"}\n'),
    ("missing-variable", "validate", GOOD.replace("2}", "{{ workers }}}")),
    ("wrong-backend", "validate --backend kubernets", GOOD),
    ("wrong-set-path", "validate --set roles.worker.replica=3", GOOD),
    ("wrong-set-type", "validate --set roles.worker.replicas=many", GOOD),
    ("set-without-a-value", "validate --set roles.worker.replicas", GOOD),
    ("wrong-var", "validate --var workers", GOOD),
    ("command-not-found", "up", GOOD.replace("sleep", "nosuch-command")),
    ("script-not-there", "up", GOOD.replace("[sleep, '1']", "[python, train.py]")),
    ("unknown-job", "status --job nosuch", None),
    ("unknown-run", "status --job mnist --run zzzz", None),
    ("unknown-task", "logs --job mnist wroker-1", None),
    ("unknown-attempt", "logs --job mnist worker-0 --attempt 7", None),
    ("file-after-follow", "logs -f cluster.yaml", GOOD),
    ("logs-before-up", "logs", GOOD),
    ("wait-for-nothing", "wait", GOOD),
    ("wrong-timeout", "wait --timeout soon", GOOD),
    ("restart-of-an-ended-job", "restart --job mnist worker-0", None),
    ("scale-of-an-ended-job", "scale --job mnist worker=-1", None),
    ("exec-without-a-command", "exec --job mnist worker-0", None),
    ("exec-beside-an-ended-task", "exec --job mnist worker-0 -- ls", None),
    ("wrong-regex", "logs --job mnist --include [", None),
    ("wrong-time", "logs --job mnist --since yesterday-ish", None),
    ("unknown-target", "render --target nomad", GOOD),
    ("render-into-a-file", "render -o cluster.yaml/run.sh", GOOD),
    ("port-out-of-range", "tensorboard --job mnist --port 99999", None),
    ("no-kubeconfig", "up --backend kubernetes --set image=a", GOOD),
    ("no-docker", "up --backend docker --set image=a", GOOD),
    ("init-twice", "init", GOOD),
    ("unknown-shell", "completion tcsh", None),
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nosuch-kubeconfig"))
    monkeypatch.setenv("DOCKER_HOST", "unix:///nosuch/docker.sock")
    for name in ("TFCLUSTER_JOB", "TFCLUSTER_BACKEND", "SHELL", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    monkeypatch.chdir(work)
    return work


def normal(text: str, folder: Path) -> str:
    text = text.replace(str(folder.parent), "<tmp>")
    return re.sub(r"\b[0-9a-f]{6}\b", "<run>", text)


@pytest.mark.parametrize(
    ("number", "name", "line", "spec"),
    [(number, *move) for number, move in enumerate(MOVES, start=1)],
    ids=[move[0] for move in MOVES],
)
def test_a_wrong_move_says_where_what_and_next(number, name, line, spec, folder, capsys):
    if "--job mnist" in line:
        elsewhere = folder.parent / "mnist"
        elsewhere.mkdir()
        write_run("mnist", folder=elsewhere, logs={"worker-0.0": ["a"]})
    if spec is not None:
        content = spec if isinstance(spec, bytes) else spec.encode()
        (folder / "cluster.yaml").write_bytes(content)
    code = main(line.split())
    out, err = capsys.readouterr()
    assert code in (2, 3), err
    assert "Traceback" not in err and "bug in tfcluster" not in err
    assert re.search(r"^error: ", err, re.M) and re.search(r"^hint: ", err, re.M), err
    shown = normal(f"$ tfcluster {line}\n{out}{err}exit code {code}\n", folder)
    golden = GOLDEN / f"{number:02}-{name}.txt"
    if os.environ.get("TFCLUSTER_WRITE_MOVES"):
        golden.write_text(shown, encoding="utf-8")
    assert shown == golden.read_text(encoding="utf-8")


def test_there_are_forty_of_them_and_no_golden_is_left_over():
    assert len(MOVES) >= 40
    names = {f"{number:02}-{move[0]}.txt" for number, move in enumerate(MOVES, start=1)}
    assert {path.name for path in GOLDEN.iterdir()} == names
