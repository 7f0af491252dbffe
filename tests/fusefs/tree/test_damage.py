"""A store with damaged content: what is whole can be read, what is not is an error, and the mount lives."""

import errno
import os
import random
from pathlib import Path

import pytest

from tests.fusefs.tree.mounting import add, assistant, errno_of, mounted, new_store, user


def damage(store: Path) -> None:
    """Flip a bit in the middle of every pack's content, where the largest record lies."""
    for pack in (store / "blobs").iterdir():
        data = bytearray(pack.read_bytes())
        used = len(bytes(data).rstrip(b"\0"))
        data[used // 2] ^= 0x10
        pack.write_bytes(data)


def test_damage_is_an_error_of_the_files_that_need_it(store_path: Path) -> None:
    noise = random.Random(3)
    with new_store(store_path) as store:
        for number in range(6):
            texts = [noise.randbytes(3000).hex() for _ in range(60)]
            add(store, [user(text, at) for at, text in enumerate(texts)], name=f"2026-03-05-talk-{number}")
            add(store, [assistant("small and whole", 1)], project="whole", name=f"2026-03-05-small-{number}")
    with mounted(store_path) as mount:
        sizes = mount.shell("find . -type f -printf '%p %s\\n'")
    damage(store_path)
    with mounted(store_path) as mount:
        assert mount.shell("find . -type f -printf '%p %s\\n'") == sizes, "stat needs no content"
        whole = damaged = 0
        for event in mount.root.glob("conversations/*/*/events/*.md"):
            failure = errno_of(event.read_bytes)
            assert failure in (0, errno.EIO)
            if failure:
                damaged += 1
                assert len(os.getxattr(event, "user.convfs.hash")) == 64
                continue
            content = event.read_bytes()
            assert len(content) == event.stat().st_size
            assert b"\0" not in content
            whole += 1
        assert damaged > 0
        assert whole > damaged
        notes = list((mount.root / ".convfs/errors").iterdir())
        assert notes
        assert all(note.read_text().startswith("project/2026-03-05-talk-") for note in notes)
        grep = mount.run("grep", "-rc", "e", "conversations", "transcripts", check=False)
        assert "Input/output error" in grep.stderr
        mount.check_alive()


@pytest.mark.parametrize("file", ["settings", "directory"])
def test_odd_things_in_the_store_directory_do_not_matter(store_path: Path, file: str) -> None:
    with new_store(store_path) as store:
        add(store, [user("hello")])
    if file == "settings":
        (store_path / "convfs.toml").write_text("unknown_key = 3\n")
    else:
        (store_path / "log").mkdir()
    with mounted(store_path) as mount:
        assert "hello" in mount.shell("cat conversations/*/*/events/*")
        mount.shell("cat .convfs/log; ls -l .convfs", check=False)


def test_content_that_is_gone_is_an_error_of_the_files_that_need_it(store_path: Path) -> None:
    with new_store(store_path) as store:
        add(store, [user("gone for now", 1), assistant("as this is", 2)])
        store.checkpointer.flush()
        store.files.packs.roll()
        add(store, [user("still there", 1)], name="2026-03-05-whole")
    with mounted(store_path) as mount:
        names = mount.shell("find . -type f")
    pack = store_path / "blobs/00000001.pack"
    pack.rename(store_path / "elsewhere")
    with mounted(store_path) as mount:
        assert mount.shell("find . -type f") == names
        talk = mount.root / "conversations/project/2026-03-05-talk"
        files = [
            *(talk / "events").iterdir(),
            talk / "events.json",
            mount.root / "transcripts/project/2026-03-05-talk.md",
        ]
        assert [errno_of(file.read_bytes) for file in files] == [errno.EIO] * len(files)
        notes = {note.name: note.read_text() for note in (mount.root / ".convfs/errors").iterdir()}
        assert any("00001-user" in name for name in notes), notes
        assert all("pack is missing" in text for text in notes.values()), notes
        assert "still there" in mount.shell("cat conversations/project/2026-03-05-whole/events/*")
        mount.check_alive()
    (store_path / "elsewhere").rename(pack)
    with mounted(store_path) as mount:
        assert "gone for now" in mount.shell("cat conversations/project/2026-03-05-talk/events/* transcripts/project/*")


def test_what_is_missing_is_told_when_the_store_is_opened(store_path: Path) -> None:
    with new_store(store_path) as store:
        add(store, [user("gone", 1)])
        store.checkpointer.flush()
        store.files.packs.roll()
        add(store, [user("still there", 1)], name="2026-03-05-whole")
    (store_path / "blobs/00000001.pack").unlink()
    for _ in range(2):
        with new_store(store_path) as store:
            [note] = store.recovered
            assert note.startswith(f"{store_path}/blobs/00000001.pack is missing")
