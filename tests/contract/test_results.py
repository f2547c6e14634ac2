"""What tasks write comes back, on every backend, also after a failure."""

from __future__ import annotations

from tfcluster.fetching import EVERYTHING, Wanted, fetch, known_results, results_folder

WRITE = """
import os, sys
out = os.environ["TFCLUSTER_OUTPUT"]
os.makedirs(out + "/deep", exist_ok=True)
with open(out + "/model.txt", "w") as file:
    file.write("model of " + os.environ["TFCLUSTER_TASK"])
with open(out + "/deep/large.bin", "wb") as file:
    file.write(b"x" * 3000000)
if not os.path.lexists(out + "/link"):
    os.symlink("/etc/passwd", out + "/link")
print("written", flush=True)
"""


def spec_of(job, program: str, **settings: object) -> dict:
    worker = {"replicas": 2, "command": job.python(program)}
    return job.spec_of({"worker": worker}, restarts=0, **settings)


def brought(job) -> dict[str, int]:
    folder = results_folder(job.run, "results")
    files = (path for path in folder.rglob("*") if path.is_file() or path.is_symlink())
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in files}


def test_results_are_in_the_person_s_folder_when_the_job_has_ended(job):
    job.up(spec_of(job, WRITE, results=["*"]))
    assert job.over().state == "succeeded"
    job.becomes(lambda _: job.run.final_status() is not None, "the run to be settled")
    assert brought(job) == {
        "worker-0/model.txt": 17,
        "worker-0/deep/large.bin": 3000000,
        "worker-1/model.txt": 17,
        "worker-1/deep/large.bin": 3000000,
    }
    known = known_results(job.run)
    assert known is not None and (known.files, known.left_out) == (4, ())
    assert (job.folder / "results" / ".gitignore").read_text().endswith("*\n")


def test_results_of_a_job_that_failed_come_back_within_their_limit(job):
    wanted = {"files": ["*.txt", "deep/*"], "limit": "1Mi"}
    job.up(spec_of(job, WRITE + "sys.exit(3)\n", results=wanted))
    assert job.over().state == "failed"
    job.becomes(lambda _: job.run.final_status() is not None, "the run to be settled")
    found = brought(job)
    assert found and all(path.endswith("/model.txt") for path in found)
    known = known_results(job.run)
    assert known is not None and "deep/large.bin" in known.left_out


def test_files_of_a_running_task_can_be_fetched(job, tmp_path):
    job.up(spec_of(job, WRITE + "import time; time.sleep(600)\n"))
    job.says("worker-1", b"written")
    target = tmp_path / "fetched"
    send = job.backend.send_output
    found = fetch(send, job.run, ["worker-1"], target, Wanted(("*.txt",)))
    assert found.files == 1
    assert (target / "worker-1" / "model.txt").read_text() == "model of worker-1"
    everything = fetch(send, job.run, ["worker-1"], target, Wanted(EVERYTHING))
    assert everything.files == 2
    assert not (target / "worker-1" / "link").is_symlink()


def test_a_task_that_wrote_nothing_brings_nothing(job):
    job.up(spec_of(job, "print('nothing')", results=["*"]))
    assert job.over().state == "succeeded"
    job.becomes(lambda _: job.run.final_status() is not None, "the run to be settled")
    assert known_results(job.run) is None
    assert not (job.folder / "results").exists()
