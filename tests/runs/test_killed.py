"""Whatever happens to the command line, `down` cleans up and `up` works again."""

from __future__ import annotations

import signal
import sys
import time

import pytest

from tests.launchers import SERVE_FOR_EVER

SPEC = f"""
name: killed
stop_grace: 2s
command: ["{sys.executable}", -c, "import time; time.sleep(600)"]
roles:
  ps: {{command: ["{sys.executable}", -c, "{SERVE_FOR_EVER}"]}}
  worker: {{replicas: 2}}
"""


@pytest.fixture
def spec(tfcluster):
    (tfcluster.folder / "cluster.yaml").write_text(SPEC)


@pytest.mark.parametrize("delay", [0.1, 0.3, 0.5, 0.7, 0.9, 1.2, 2.0])
def test_up_killed_at_any_point_leaves_nothing_that_down_cannot_clean(tfcluster, spec, delay):
    up = tfcluster.start("up")
    time.sleep(delay)
    up.kill()
    up.communicate()
    down = tfcluster("down")
    assert down.returncode == 0, down.stderr
    assert tfcluster.left_behind() == []
    again = tfcluster("up", "--wait")
    assert again.returncode == 0, again.stderr


@pytest.mark.parametrize("delay", [0.3, 0.6, 1.0])
def test_down_during_up_ends_both(tfcluster, spec, delay):
    up = tfcluster.start("up")
    time.sleep(delay)
    down = tfcluster("down")
    assert down.returncode == 0, down.stderr
    if "nothing to stop" in (down.stdout + down.stderr).lower():
        up.send_signal(signal.SIGINT)  # it had not begun yet
    _, err = up.communicate(timeout=60)
    assert up.returncode in (5, 130), err
    assert tfcluster.left_behind() == []


def test_down_of_nothing_is_quiet_and_fine(tfcluster, spec):
    for _ in range(2):
        down = tfcluster("down")
        assert down.returncode == 0
        assert "error" not in down.stderr
