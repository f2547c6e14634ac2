"""Which files of a program are sent, what is refused, and that the archive says only that."""

from __future__ import annotations

import io
import os
import stat
import tarfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.specs import problems
from tfcluster.code import snapshot, walk
from tfcluster.code.delivery import MAX_PACKED, PART, check_packed, count_parts, split_archive
from tfcluster.code.secrets import looks_secret_name
from tfcluster.code.snapshot import Snapshot, archive_bytes, take_snapshot
from tfcluster.code.walk import Rules, list_code
from tfcluster.errors import MissingError, UsageError
from tfcluster.launch.unpack import BadArchive, unpack_code, unpack_tar


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path / "home"))


def made(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def sent(folder: Path, **rules: object) -> list[str]:
    return [entry.path for entry in list_code(folder, Rules(**rules))]


# -- Which files -------------------------------------------------------------------------------


def test_caches_environments_and_repositories_are_never_sent(tmp_path):
    left_out = [
        *(".git/config", "__pycache__/a.pyc", "own/__pycache__/b.pyc", ".pytest_cache/x"),
        *("env/pyvenv.cfg", "env/bin/python", "conda/conda-meta/history", "a.pyc", "b.py~"),
    ]
    folder = made(tmp_path / "code", dict.fromkeys([*left_out, "train.py", "own/b.py"], ""))
    assert sent(folder) == ["own/b.py", "train.py"]


def test_ignore_files_mean_what_they_mean_to_git(tmp_path):
    files = {
        ".gitignore": "*.log\n!keep.log\n/data/\nmodels/\n",
        "own/.gitignore": "local.py\n",
        **dict.fromkeys(["a.log", "keep.log", "data/x", "own/data/x", "own/models/m"], ""),
        **dict.fromkeys(["own/local.py", "local.py", "train.py"], ""),
    }
    folder = made(tmp_path / "code", files)
    kept = [".gitignore", "keep.log", "local.py", "own/.gitignore", "own/data/x", "train.py"]
    assert sent(folder) == kept


def test_the_repository_s_ignore_file_counts_for_a_folder_inside_it(tmp_path):
    made(tmp_path, {".git/HEAD": "", ".gitignore": "*.bin\nsub/code/deep/\n"})
    folder = made(tmp_path / "sub" / "code", dict.fromkeys(["a.bin", "deep/b", "c.py"], ""))
    assert sent(folder) == ["c.py"]


def test_tfclusterignore_and_the_spec_have_the_last_word(tmp_path):
    files = {".gitignore": "vocab.txt\n", ".tfclusterignore": "!vocab.txt\nnotes.md\n"}
    folder = made(tmp_path / "code", {**files, "vocab.txt": "", "notes.md": "", "big.npy": ""})
    assert sent(folder, ignore=("*.npy",)) == [".gitignore", ".tfclusterignore", "vocab.txt"]


def test_what_runs_write_is_not_sent_with_the_next_run(tmp_path):
    folder = made(tmp_path / "code", dict.fromkeys(["out/model", "train.py"], ""))
    assert sent(folder, outputs=(folder / "out",)) == ["train.py"]


def test_an_empty_or_missing_folder_is_an_error(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no file to send"):
        sent(tmp_path / "empty")
    with pytest.raises(MissingError, match="there is no folder"):
        sent(tmp_path / "absent")


# -- What is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        *((name, True) for name in (".env", "prod.env", ".env.local", "id_rsa", "tls/server.pem")),
        *((name, True) for name in ("x.key", "credentials.json", "aws/credentials", ".netrc")),
        *((name, True) for name in ("kubeconfig", ".kube/config", ".ssh/config", "secrets.yaml")),
        *((name, False) for name in ("train.py", "credentials.py", ".env.example", "keys.txt")),
        *((name, False) for name in ("environment.yaml", "secrets.py", "monkey.txt", "README.md")),
    ],
)
def test_names_of_secrets(name, secret):
    assert looks_secret_name(name) is secret


def test_secrets_are_refused_with_their_names_and_both_ways_out(tmp_path):
    folder = made(tmp_path / "code", {".env": "KEY=1", "own/server.key": "", "train.py": ""})
    with pytest.raises(UsageError) as refused:
        sent(folder)
    assert refused.value.message.startswith("code: 2 files look secret")
    assert list(refused.value.evidence) == ["  .env", "  own/server.key"]
    assert ".tfclusterignore" in str(refused.value.hint) and "allow" in str(refused.value.hint)
    assert sent(folder, ignore=(".env",), allow=("own/server.key",)) == [
        "own/server.key",
        "train.py",
    ]


@pytest.mark.parametrize(
    "content",
    ["-----BEGIN RSA PRIVATE KEY-----\nabc", "users:\n- user:\n    client-key-data: abc\n"],
)
def test_a_secret_under_a_harmless_name_is_found_by_its_content(tmp_path, content):
    folder = made(tmp_path / "code", {"notes": content, "train.py": ""})
    with pytest.raises(UsageError, match="a file looks secret"):
        take_snapshot(folder, Rules())
    assert take_snapshot(folder, Rules(allow=("notes",))).files == 2
    assert not list(snapshot.store().glob("*.tmp"))


def test_links_stay_inside_or_are_refused(tmp_path):
    folder = made(tmp_path / "code", {"a/file": "x", "train.py": ""})
    (folder / "to-file").symlink_to(folder / "a" / "file")
    (folder / "a" / "up").symlink_to("..")
    assert {e.path: e.link for e in list_code(folder, Rules()) if e.link} == {
        "to-file": "a/file",
        "a/up": "..",
    }
    (folder / "passwords").symlink_to("/etc/passwd")
    (folder / "a" / "out").symlink_to("../../elsewhere")
    with pytest.raises(UsageError) as refused:
        sent(folder)
    rows = ["  a/out -> ../../elsewhere", "  passwords -> /etc/passwd"]
    assert list(refused.value.evidence) == rows


def test_too_much_is_refused_with_what_is_largest_first(tmp_path):
    folder = made(tmp_path / "code", {"train.py": "x", "data/small": b"x" * 100})
    with (folder / "data" / "large").open("wb") as file:
        file.truncate(200_000_000)
    with pytest.raises(UsageError) as refused:
        sent(folder)
    assert "has 190.7MiB, and the limit is 100MiB" in refused.value.message
    assert refused.value.evidence[0].split() == ["190.7MiB", "data/", "(2)"]
    assert any(row.split() == ["190.7MiB", "data/large"] for row in refused.value.evidence)
    assert sent(folder, limit=10**9) == ["data/large", "data/small", "train.py"]


def test_too_many_files_are_refused_without_a_look_at_all_of_them(tmp_path, monkeypatch):
    monkeypatch.setattr(walk, "MAX_FILES", 10)
    folder = made(tmp_path / "code", {f"data/{number}": "" for number in range(30)})
    with pytest.raises(UsageError, match="more than 10 files"):
        sent(folder)


def test_kubernetes_takes_a_documented_size_in_pieces_that_fit():
    def code(packed: int) -> Snapshot:
        return Snapshot("0" * 64, "/code", 300, 6 << 20, packed)

    check_packed(code(6 << 20))
    assert PART < 1 << 20
    data = os.urandom(2 * PART + 1)
    assert count_parts(code(len(data))) == 3 and b"".join(split_archive(data)) == data
    assert all(len(part) <= PART for part in split_archive(data))
    with pytest.raises(UsageError, match="Kubernetes takes 9MiB"):
        check_packed(code(MAX_PACKED + 1))


# -- The archive -------------------------------------------------------------------------------


def test_the_same_files_give_the_same_archive_whenever_and_wherever(tmp_path):
    first = made(tmp_path / "one", {"b.py": "b", "a/c.py": "c"})
    before = take_snapshot(first, Rules())
    content = archive_bytes(before.digest)
    second = made(tmp_path / "two", {"a/c.py": "c", "b.py": "b"})
    os.utime(second / "b.py", (1, 1))
    time.sleep(0.01)
    assert take_snapshot(second, Rules()).digest == before.digest
    assert archive_bytes(before.digest) == content
    (second / "b.py").chmod(0o755)
    assert take_snapshot(second, Rules()).digest != before.digest


names = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=40
).filter(lambda name: name not in (".", "..") and len(name.encode()) < 200)


@settings(deadline=None, max_examples=40)
@given(st.dictionaries(names, st.binary(max_size=200), min_size=1, max_size=5))
def test_files_of_any_name_arrive_as_they_were(tmp_path_factory, files):
    folder = tmp_path_factory.mktemp("code")
    for name, content in files.items():
        (folder / "in").mkdir(exist_ok=True)
        (folder / "in" / name).write_bytes(content)
    try:
        found = take_snapshot(folder, Rules(allow=("*",)))
    except UsageError:
        assert not sent_names(folder)
        return
    target = tmp_path_factory.mktemp("target") / "code"
    parts = [str(snapshot.archive_path(found.digest))]
    unpack_code({"parts": parts, "sha256": found.digest, "target": str(target)})
    arrived = {path.name: path.read_bytes() for path in (target / "in").iterdir()}
    assert arrived == {name: files[name] for name in sent_names(folder)}


def sent_names(folder: Path) -> list[str]:
    """What is to be sent of a folder `in` without ignore files."""
    return [
        item.name
        for item in os.scandir(folder / "in")
        if not item.name.endswith((".pyc", ".pyo", ".swp", "~")) and item.name != ".DS_Store"
    ]


# -- Unpacking, whatever comes in --------------------------------------------------------------


def archive_of(*members: tuple[str, bytes, str]) -> tarfile.TarFile:
    """A tar of (name, type, link)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, kind, link in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, link
            info.size = 3 if kind == tarfile.REGTYPE else 0
            archive.addfile(info, io.BytesIO(b"bad"))
    buffer.seek(0)
    return tarfile.open(fileobj=buffer)


FILE, LINK, HARD = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE


@pytest.mark.parametrize(
    "members",
    [
        [("../evil", FILE, "")],
        [("/tmp/evil-absolute", FILE, "")],
        [("a/../../evil", FILE, "")],
        [("..", tarfile.DIRTYPE, "")],
        [("link", LINK, "/etc")],
        [("link", LINK, "../../etc")],
        [("p/q/sub", LINK, "../../t"), ("e", LINK, "p/q/sub/../../..")],
        [("t/x", FILE, ""), ("sub", LINK, "t"), ("sub/evil", LINK, "../..")],
    ],
)
def test_names_and_links_that_lead_out_are_refused(tmp_path, members):
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(BadArchive):
        unpack_tar(archive_of(*members), str(target), links=True)
    assert sorted(tmp_path.iterdir()) == [target]
    assert not Path("/tmp/evil-absolute").exists()


def test_a_link_that_is_there_already_is_not_written_through(tmp_path):
    target, outside = tmp_path / "target", tmp_path / "outside"
    target.mkdir()
    outside.mkdir()
    (target / "sub").symlink_to(outside)
    (target / "file").symlink_to(outside / "file")
    with pytest.raises(BadArchive):
        unpack_tar(archive_of(("sub/evil", FILE, "")), str(target))
    with pytest.raises(OSError):
        unpack_tar(archive_of(("file", FILE, "")), str(target))
    assert not list(outside.iterdir())


def test_links_devices_and_pipes_are_left_out_where_they_have_no_business(tmp_path):
    members = [("a", LINK, "b"), ("h", HARD, "b"), ("p", tarfile.FIFOTYPE, ""), ("b", FILE, "")]
    assert unpack_tar(archive_of(*members), str(tmp_path)) == ["b"]
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.text(st.sampled_from("a./"), min_size=1, max_size=12),
            st.sampled_from([FILE, LINK, tarfile.DIRTYPE]),
            st.text(st.sampled_from("a./"), min_size=1, max_size=8),
        ),
        max_size=6,
    )
)
def test_nothing_is_ever_written_outside(tmp_path_factory, members):
    around = tmp_path_factory.mktemp("around")
    target = around / "b" / "target"
    target.mkdir(parents=True)
    try:
        unpack_tar(archive_of(*members), str(target), links=True)
    except (BadArchive, OSError):
        pass
    assert [path.name for path in around.iterdir()] == ["b"]
    assert [path.name for path in (around / "b").iterdir()] == ["target"]
    for path in target.rglob("*"):
        assert Path(os.path.realpath(path)).is_relative_to(os.path.realpath(target))


def test_damaged_code_is_not_run(tmp_path):
    found = take_snapshot(made(tmp_path / "code", {"train.py": "print(1)"}), Rules())
    parts = [tmp_path / "part.0", tmp_path / "part.1"]
    data = archive_bytes(found.digest)
    parts[0].write_bytes(data[:40])
    parts[1].write_bytes(data[40:])
    entry = {"parts": [str(part) for part in parts], "sha256": found.digest}
    unpack_code({**entry, "target": str(tmp_path / "good")})
    assert (tmp_path / "good" / "train.py").read_text() == "print(1)"
    for damaged in (data[40:-9], data[40:-9] + b"x" * 9, data[41:]):
        parts[1].write_bytes(damaged)
        with pytest.raises(BadArchive):
            unpack_code({**entry, "target": str(tmp_path / "bad")})
    parts[1].write_bytes(data[40:])
    with pytest.raises(BadArchive, match="checksum"):
        unpack_code({**entry, "sha256": "0" * 64, "target": str(tmp_path / "bad")})
    assert not (tmp_path / "bad").exists()


def test_the_archive_is_readable_by_its_owner_alone(tmp_path):
    found = take_snapshot(made(tmp_path / "code", {"train.py": ""}), Rules())
    path = snapshot.archive_path(found.digest)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


# -- In a spec ---------------------------------------------------------------------------------

OWN = "name: own\ncommand: [python, train.py]\nroles: {worker: {}}\n"


@pytest.mark.parametrize("backend", ["local", "docker", "kubernetes"])
@pytest.mark.parametrize(
    "code", [".", "{folder: src, ignore: ['*.npy'], allow: [x.pem], limit: 2Gi}"]
)
def test_code_needs_no_image(backend, code):
    assert problems(f"{OWN}code: {code}\n", backend=backend) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{OWN}code: 3\n", "expected a folder or a mapping, got 3"),
        (f"{OWN}code: {{dir: x}}\n", 'unknown key "dir"'),
        ("name: t\ntrain: {}\ncode: .\nroles: {worker: {}}\n", "code goes with command"),
        (f"{OWN}backend: docker\ncode: {{live: true}}\n", "code.live: tasks on docker do not see"),
    ],
)
def test_code_that_cannot_be_honoured_is_refused(text, message):
    assert any(message in problem for problem in problems(text))
