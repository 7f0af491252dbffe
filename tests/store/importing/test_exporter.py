import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path, PurePath

import pytest

from fusefs.text.render import FileRenderer
from store.disk import durable
from store.disk.beneath import Beneath
from store.errors import Conflict, DamageError, UsageError
from store.importing.exporter import export_native
from store.store import Store
from tests.store.importing.sessions import by_source, event, imported, jp, lines, long_lines, session

ROOT = Path(__file__).parents[3]


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_session_that_was_a_file_becomes_one(store: Store, tmp_path: Path) -> None:
    path = session(tmp_path, lines("One"), "a")
    imported(store, path)
    out = tmp_path / "deep" / "out"
    assert export_native(store, by_source(store, path), out) == [out / "a.jsonl"]
    assert tree(out) == {"a.jsonl": path.read_bytes()}
    assert os.listdir(out) == ["a.jsonl"]


def test_a_session_that_was_a_directory_becomes_one(store: Store, tmp_path: Path) -> None:
    folder = jp(tmp_path, [event()])
    (folder / "notes.txt").write_text("beside")
    imported(store, folder)
    out = tmp_path / "out"
    export_native(store, by_source(store, folder), out)
    assert tree(out / folder.name) == tree(folder)
    assert os.listdir(out) == [folder.name]


def test_files_of_the_same_name_go_to_distinct_places(store: Store, tmp_path: Path) -> None:
    paths = [session(tmp_path, lines(f"Text {number}"), "same", project=f"p{number}") for number in range(3)]
    folders = [jp(tmp_path / f"w{number}", [event(text=f"Text {number}")]) for number in range(2)]
    imported(store, tmp_path)
    out = tmp_path / "out"
    written = [export_native(store, by_source(store, path), out) for path in (*paths, *folders)]
    assert [str(files[0].relative_to(out)) for files in written] == [
        "same.jsonl",
        "shop/2026-03-05-text-1/same.jsonl",
        "shop/2026-03-05-text-2/same.jsonl",
        "17727523543-fix-the-login/base_config.json",
        "w1/2026-03-05-fix-the-login/17727523543-fix-the-login/base_config.json",
    ]
    for path, files in zip(paths, written, strict=False):
        assert files[0].read_bytes() == path.read_bytes()
    written[1][0].write_bytes(b"of somebody else")
    before = tree(out)
    with pytest.raises(Conflict, match="exists already"):
        export_native(store, by_source(store, paths[1]), out)
    assert tree(out) == before


@pytest.mark.parametrize("kind", ["file", "directory", "link", "dangling"])
def test_nothing_is_overwritten(store: Store, tmp_path: Path, kind: str) -> None:
    path = session(tmp_path, lines("One"), "a")
    imported(store, path)
    out = tmp_path / "out"
    out.mkdir()
    taken = out / "a.jsonl"
    match kind:
        case "file":
            taken.write_text("mine")
        case "directory":
            taken.mkdir()
        case "link":
            taken.symlink_to(path)
        case "dangling":
            taken.symlink_to("nowhere")
    status = taken.lstat()
    assert export_native(store, by_source(store, path), out) == [out / "shop/2026-03-05-one/a.jsonl"]
    assert taken.lstat().st_ino == status.st_ino
    assert path.read_bytes() == lines("One")


def test_a_name_that_is_taken_at_the_last_moment(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = session(tmp_path, lines("One"), "a")
    imported(store, path)
    out = tmp_path / "out"
    real = Beneath.has

    def has(directory: Beneath, name: PurePath) -> bool:
        found = real(directory, name)
        if name == PurePath("a.jsonl"):
            (out / name).write_text("mine")
        return found

    monkeypatch.setattr(Beneath, "has", has)
    with pytest.raises(UsageError, match="cannot export"):
        export_native(store, by_source(store, path), out)
    assert tree(out) == {"a.jsonl": b"mine"}


@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
def test_an_error_leaves_nothing(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    folder = jp(tmp_path, [event()])
    imported(store, folder)
    conversation = by_source(store, folder)
    synced = 0

    def fdatasync(fd: int) -> None:
        nonlocal synced
        synced += 1
        if synced == 2:
            raise OSError(errno.ENOSPC, "No space left on device")

    out = tmp_path / "out"
    with monkeypatch.context() as patched:
        patched.setattr(durable, "fdatasync", fdatasync)
        with pytest.raises(UsageError, match="No space left"):
            export_native(store, conversation, out)
    assert list(out.rglob("*")) == []


def test_a_damaged_store_gives_no_half_file(tmp_path: Path) -> None:
    path = session(tmp_path, long_lines(200))
    root = tmp_path / "store"
    with Store.open(root, renderer=FileRenderer()) as store:
        imported(store, path)
    pack = root / "blobs" / "00000001.pack"
    data = bytearray(pack.read_bytes())
    data[len(data) // 2] ^= 0xFF
    pack.write_bytes(data)
    out = tmp_path / "out"
    with Store.open(root, renderer=FileRenderer()) as store, pytest.raises(DamageError):
        export_native(store, by_source(store, path), out)
    assert list(out.rglob("*")) == []


def test_what_came_from_no_tool_is_refused(store: Store, tmp_path: Path) -> None:
    head = store.contexts.create(metadata={"project": "p", "name": "n"})
    with pytest.raises(UsageError, match="not imported"):
        export_native(store, store.library.conversation(head.context), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["../escaped", "/tmp/escaped", "a/../../escaped", ""])
def test_names_that_lead_elsewhere_are_refused(store: Store, tmp_path: Path, name: str) -> None:
    folder = jp(tmp_path, [event()])
    imported(store, folder)
    conversation = by_source(store, folder)
    store.contexts.set_metadata(conversation.id, {"sidecars": {name: "00" * 32}})
    with pytest.raises(UsageError, match="no name for a file"):
        export_native(store, store.library.conversation(conversation.id), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    store.contexts.set_metadata(conversation.id, {"sidecars": None})


@pytest.mark.parametrize("where", ["file", "file/below", "\0"])
def test_a_directory_that_cannot_be(store: Store, tmp_path: Path, where: str) -> None:
    path = session(tmp_path, lines("One"))
    imported(store, path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot export"):
        export_native(store, by_source(store, path), tmp_path / where)


def test_an_earlier_version_is_not_what_is_exported(store: Store, tmp_path: Path) -> None:
    path = session(tmp_path, lines("One", "Two"), "a")
    imported(store, path)
    path.write_bytes(lines("Other"))
    imported(store, path)
    (written,) = export_native(store, by_source(store, path), tmp_path / "out")
    assert written.read_bytes() == lines("Other")


EXPORT = """
import sys
from pathlib import Path
from store.importing.exporter import export_native
from store.store import Store
with Store.open(Path(sys.argv[1])) as store:
    print("begun", flush=True)
    for number in range(1000):
        export_native(store, store.library.conversation(1), Path(sys.argv[2]) / str(number))
"""


def test_killed_while_it_writes(tmp_path: Path) -> None:
    path = session(tmp_path, long_lines(400), "a")
    root, out = tmp_path / "store", tmp_path / "out"
    with Store.open(root, renderer=FileRenderer()) as store:
        imported(store, path)
    for pause in (0.01, 0.033, 0.071, 1.5):
        process = subprocess.Popen(
            [sys.executable, "-c", EXPORT, root, out / str(pause)],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
        )
        assert process.stdout
        with process.stdout as output:
            assert output.readline() == b"begun\n"
            time.sleep(pause)
            process.send_signal(signal.SIGKILL)
        process.wait(10)
    assert list(out.rglob("a.jsonl"))
    for written in out.rglob("a.jsonl"):
        if not written.parent.name.startswith("."):
            assert written.read_bytes() == path.read_bytes()
