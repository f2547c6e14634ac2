"""A secret that reaches the program reaches nothing that is printed or written for people."""

from __future__ import annotations

import stat
import sys

from tests.launchers import until
from tests.runs.canary import (
    CANARY,
    OVERRIDES,
    SAYS,
    VARIABLES,
    everything_printed,
    leaks,
    write_spec,
)
from tfcluster.cli import main


def test_a_secret_is_in_nothing_that_is_printed_or_remembered(tfcluster, monkeypatch, capfd):
    monkeypatch.setenv("TFCLUSTER_HOME", str(tfcluster.home))
    monkeypatch.delenv("TFCLUSTER_JOB", raising=False)
    monkeypatch.chdir(tfcluster.folder)

    def run(*words: str) -> str:
        main(list(words))
        return "".join(capfd.readouterr())

    write_spec(tfcluster.folder, sys.executable, "local")
    printed = everything_printed(run)
    until(lambda: SAYS in run("logs", "worker-0"), "the program to have got it")
    assert leaks(printed) == {}
    refused = printed[" ".join(("up", "-d", *VARIABLES))]
    assert "--set 'env.SESSION_TOKEN=…' --set 'args=…'" in refused
    hint = "give them again: --set env.SESSION_TOKEN=… --set args=…"
    assert hint in printed["scale worker=2"]
    assert "give them again: --var password=…" in run("scale", "worker=2", *OVERRIDES)
    files = [path for path in tfcluster.home.rglob("*") if path.is_file()]
    assert [path for path in files if stat.S_IMODE(path.stat().st_mode) & 0o077] == []
    # A task is started with its environment, so the plan has it; nothing else does.
    holding = {path.name for path in files if CANARY.encode() in path.read_bytes()}
    assert holding <= {"plan.json", "launch.json"}
