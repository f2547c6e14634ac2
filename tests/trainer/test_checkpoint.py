"""Checkpoints: whole, or not used."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from trainer.checkpoint import Checkpoints, DamagedFile, NoneWhole, read_arrays, write_arrays
from trainer.errors import TrainerError
from trainer.state import Snapshot, piece_sizes


def snapshot(updates: int) -> Snapshot:
    random = np.random.default_rng(updates)
    return Snapshot(
        parameters=random.standard_normal(1000).astype(np.float32),
        slots=random.standard_normal((2, 1000)).astype(np.float32),
        updates=updates,
        steps=np.array([updates, 0]),
    )


def test_what_was_saved_comes_back(tmp_path: Path) -> None:
    Checkpoints(tmp_path, 3).save(snapshot(7), {"run": "a"})
    found = Checkpoints(tmp_path, 3).newest()
    assert found is not None
    assert (found.snapshot.updates, found.meta) == (7, {"run": "a"})
    np.testing.assert_array_equal(found.snapshot.parameters, snapshot(7).parameters)
    np.testing.assert_array_equal(found.snapshot.slots, snapshot(7).slots)
    np.testing.assert_array_equal(found.snapshot.steps, [7, 0])


def test_the_last_three_are_kept_and_the_newest_is_the_last_saved(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 3)
    for updates in (10, 20, 30, 40, 5):
        checkpoints.save(snapshot(updates), {})
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"checkpoint-{n:06d}.npz" for n in (3, 4, 5)]
    newest = checkpoints.newest()
    assert newest is not None
    assert newest.snapshot.updates == 5, "a later save counts more than a higher step"


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "swap"])
def test_a_damaged_one_is_passed_over_for_the_one_before(
    tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoints = Checkpoints(tmp_path, 3)
    checkpoints.save(snapshot(1), {})
    path = checkpoints.save(snapshot(2), {})
    content = bytearray(path.read_bytes())
    if damage == "swap":  # a well-formed file whose content is not what was summed
        with np.load(path) as file:
            arrays = dict(file)
        np.savez(path, **{**arrays, "parameters": arrays["parameters"] + 1})
    else:
        content[len(content) // 2] ^= 1
        kept = {"cut": content[: len(content) // 2], "flip": content, "empty": b""}[damage]
        path.write_bytes(kept)
    found = checkpoints.newest()
    assert found is not None
    assert found.snapshot.updates == 1
    assert f"{path.name} is damaged" in capsys.readouterr().err


def test_any_flipped_byte_is_harmless_or_noticed(tmp_path: Path) -> None:
    path = tmp_path / "weights.npz"
    parameters = np.arange(20, dtype=np.float32)
    write_arrays(path, {"parameters": parameters}, {"model": "mlp"})
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        try:
            arrays, meta = read_arrays(path)
        except DamagedFile:
            continue
        np.testing.assert_array_equal(arrays["parameters"], parameters)
        assert meta == {"model": "mlp"}


def test_none_is_found_where_there_is_none(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path / "nowhere", 3).newest() is None


@pytest.mark.parametrize("kind", ["folder", "dangling link", "link to another", "no checkpoint"])
def test_what_is_only_named_like_a_checkpoint_is_passed_over_and_left_alone(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoints = Checkpoints(tmp_path, 2)
    good = checkpoints.save(snapshot(1), {})
    odd = tmp_path / "checkpoint-000002.npz"
    if kind == "folder":
        odd.mkdir()
    elif kind == "no checkpoint":
        write_arrays(odd, {"parameters": np.zeros(3, np.float32)}, {})
    else:
        odd.symlink_to("nowhere" if kind == "dangling link" else good)
    found = checkpoints.newest()
    assert found is not None and found.path == good
    assert f"{odd} is not a" in capsys.readouterr().err
    for updates in (3, 4, 5):
        checkpoints.save(snapshot(updates), {})
    newest = checkpoints.newest()
    assert newest is not None and newest.snapshot.updates == 5
    assert odd.exists() or odd.is_symlink() or kind == "no checkpoint"


def test_none_whole_where_there_were_some_is_an_error_and_not_a_new_start(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 3)
    for updates in (1, 2):
        checkpoints.save(snapshot(updates), {}).write_bytes(b"")
    with pytest.raises(
        NoneWhole, match=r"none of the checkpoints in .* \(2 tried\).*resume: never"
    ):
        checkpoints.newest()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(TrainerError, match=r"cannot write .*file/checkpoint-000001.npz"):
        Checkpoints(tmp_path / "file", 3).save(snapshot(1), {})
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_pieces_of_the_parameters_differ_by_at_most_one() -> None:
    assert piece_sizes(79510, 1) == [79510]
    assert piece_sizes(10, 3) == [4, 3, 3]
    assert sum(piece_sizes(79510, 7)) == 79510
