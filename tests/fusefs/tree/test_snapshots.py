"""``fs/`` in the mount: the files that turns were made with, as their programs uploaded them."""

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from store.ids import Hash, hash_bytes
from store.store import Store
from tests.fusefs.tree.mounting import TALK, add, mounted, new_store, until, user

Entry = tuple[str, int, int, int, Hash]
FILE, FOLDER, LINK = range(3)
MISSING = hash_bytes(b"nobody has this")


def tree(store: Store, *entries: Entry, names: bool = False) -> Hash:
    """Upload a tree; ``names``: its keys are texts, as some programs write them."""
    keys: Sequence[object] = [str(key) if names else key for key in range(1, 6)]
    return store.intake.put(msgspec.msgpack.encode([dict(zip(keys, entry, strict=True)) for entry in entries]))


def file(store: Store, name: str, content: bytes, mode: int = 0o644, kind: int = FILE) -> Entry:
    return (name, kind, mode, len(content), store.intake.put(content))


def folder(name: str, digest: Hash, mode: int = 0o755) -> Entry:
    return (name, FOLDER, mode, 0, digest)


def talk(store: Store) -> int:
    return add(store, [user(f"request {number}", number) for number in range(1, 5)])


@pytest.mark.parametrize("names", [False, True])
def test_trees_files_links_and_modes(store_path: Path, names: bool) -> None:
    with new_store(store_path) as store:
        talk(store)
        inner = tree(store, file(store, "cart.py", b"total = 0\n"), file(store, "run", b"#!/bin/sh\n", 0o755))
        root = tree(
            store,
            file(store, "README.md", b"# Shop\n", 0o100640),
            folder("src", inner),
            folder("empty", store.intake.put(b"\xc0"), 0o700),
            file(store, "latest", b"src/cart.py", 0o777, LINK),
            file(store, "große Datei", b"x" * 300_000, 0),
            names=names,
        )
        store.contexts.attach_fs(2, root)
        store.contexts.attach_fs(4, inner)
    with mounted(store_path) as mount:
        directory = mount.root / TALK
        assert "fs" in os.listdir(directory)
        assert os.listdir(directory / "fs") == ["00002", "00004"]
        at = directory / "fs/00002"
        assert sorted(os.listdir(at)) == ["README.md", "empty", "große Datei", "latest", "src"]
        assert (at / "README.md").read_bytes() == b"# Shop\n"
        assert (at / "große Datei").read_bytes() == b"x" * 300_000
        assert (at / "src/cart.py").read_text() == (directory / "fs/00004/cart.py").read_text() == "total = 0\n"
        assert os.readlink(at / "latest") == "src/cart.py"
        assert (at / "latest").read_text() == "total = 0\n"
        assert os.listdir(at / "empty") == []
        modes = {path.name: oct(stat.S_IMODE(path.lstat().st_mode)) for path in at.rglob("*") if not path.is_symlink()}
        assert modes == {
            "README.md": "0o640",
            "src": "0o755",
            "cart.py": "0o644",
            "run": "0o755",
            "empty": "0o700",
            "große Datei": "0o400",
        }
        assert (at / "latest").lstat().st_size == len("src/cart.py")
        assert (at / "README.md").stat().st_size == 7
        copy = store_path.with_name("copy")
        mount.shell(f"cp -a '{at}' '{copy}'")
        assert (copy / "latest").read_text() == "total = 0\n"
        assert oct((copy / "src/run").stat().st_mode) == "0o100755"
        assert mount.shell(f"cd '{directory}/fs' && find . -type f | wc -l").strip() == "6"


def test_where_it_comes_from(store_path: Path) -> None:
    with new_store(store_path) as store:
        talk(store)
        entry = file(store, "a.py", b"a = 1\n")
        inner = tree(store, entry)
        root = tree(store, folder("src", inner), file(store, "l", b"src", 0o777, LINK))
        store.contexts.attach_fs(3, root)
    with mounted(store_path) as mount:
        at = mount.root / TALK / "fs/00003"

        def told(path: Path, name: str) -> str:
            return os.getxattr(path, f"user.convfs.{name}").decode()

        assert told(at / "src/a.py", "hash") == entry[4].hex()
        assert told(at / "src/a.py", "path") == "src/a.py"
        for path in (at, at / "src", at / "src/a.py"):
            assert (told(path, "event"), told(path, "turn"), told(path, "root")) == ("3", "3", root.hex())
        assert told(at, "hash") == root.hex()
        assert "path: src\n" in told(at / "src", "all")


def test_there_is_none_without_roots(store_path: Path) -> None:
    with new_store(store_path) as store:
        talk(store)
        other = add(store, [user("other", 9)], name="2026-03-06-other")
        last = store.writer.head(other).turn
        store.contexts.attach_fs(last, tree(store, file(store, "a", b"a")))
    with mounted(store_path) as mount:
        assert "fs" not in os.listdir(mount.root / TALK)
        assert not (mount.root / TALK / "fs").exists()
        assert os.listdir(mount.root / TALK.replace("05-talk", "06-other") / "fs") == ["00001"]


def test_they_follow_appends_and_later_attachments(store_path: Path) -> None:
    with new_store(store_path) as store:
        talk(store)
        root = tree(store, file(store, "a", b"a"))
    with mounted(store_path) as mount:
        directory = mount.root / TALK
        assert not (directory / "fs").exists()
        mount.tell(files=[1, user("more", 5), root.hex()])
        until(lambda: (directory / "fs/00005").exists())
        assert os.listdir(directory / "fs/00005") == ["a"]
        mount.tell(attach=[1, root.hex()])
        until(lambda: (directory / "fs/00001").exists())
        assert (directory / "fs/00001/a").read_bytes() == b"a"


def test_an_edit_leaves_each_event_its_files(store_path: Path) -> None:
    """It appends the later events anew; the one that is deleted, and an earlier version, keep their own numbers."""
    with new_store(store_path) as store:
        talk(store)
        for turn in (1, 2, 4):
            store.contexts.attach_fs(turn, tree(store, file(store, f"of-{turn}", b"a")))
    with mounted(store_path) as mount:
        directory = mount.root / TALK
        for _ in range(2):
            mount.shell(f"sed -i s/request/REQUEST/ '{directory}/events/00002-user.md'")
            mount.shell(f"sed -i s/REQUEST/request/ '{directory}/events/00001-user.md'")
            mount.shell(f"sed -i s/REQUEST/request/ '{directory}/events/00002-user.md'")
        mount.shell(f"echo >> '{directory}/events/00003-user.md'")
        until(lambda: len(os.listdir(directory / ".versions")) > 3)
        for folder in (directory, *sorted((directory / ".versions").iterdir())):
            found = {name: os.listdir(folder / "fs" / name) for name in os.listdir(folder / "fs")}
            assert found == {"00001": ["of-1"], "00002": ["of-2"], "00004": ["of-4"]}


def test_nothing_can_be_written(store_path: Path) -> None:
    with new_store(store_path) as store:
        talk(store)
        store.contexts.attach_fs(1, tree(store, file(store, "a", b"a", 0o777), folder("b", tree(store), 0o777)))
    with mounted(store_path) as mount:
        at = mount.root / TALK / "fs/00001"
        tries = [
            lambda: (at / "a").write_bytes(b"x"),
            lambda: (at / "new").write_bytes(b"x"),
            lambda: (at / "b/new").mkdir(),
            (at / "a").unlink,
            (at / "b").rmdir,
            lambda: (at / "a").rename(at / "c"),
            lambda: (at / "a").chmod(0o600),
            lambda: os.utime(at / "a"),
            lambda: os.truncate(at / "a", 0),
            lambda: (at / "l").symlink_to("a"),
        ]
        for one in tries:
            with pytest.raises(OSError) as told:
                one()
            assert told.value.errno in (errno.EROFS, errno.EPERM, errno.ENOTSUP)
        assert (at / "a").read_bytes() == b"a"


def test_damaged_trees_are_eio_and_names_that_no_file_can_have_are_left_out(store_path: Path) -> None:
    with new_store(store_path) as store:
        talk(store)
        good = file(store, "good.txt", b"good")
        bad = [(name, FILE, 0o644, 4, good[4]) for name in ("..", ".", "a/b", "", "nul\0", "x" * 256)]
        store.contexts.attach_fs(
            1,
            tree(
                store,
                *bad,
                good,
                ("good.txt", FILE, 0o644, 4, MISSING),
                ("short", FILE, 0o644, 4, Hash(b"1234")),
                folder("missing", MISSING),
                folder("no-tree", good[4]),
                folder("array", store.intake.put(b"\x93\x01\x02\x03")),
                folder("large", store.intake.put(b"\xc0" * (17 << 20))),
                ("gone.txt", FILE, 0o644, 4, MISSING),
                ("long", LINK, 0o777, 4, store.intake.put(b"x/" * 4000)),
                ("nowhere", LINK, 0o777, 4, MISSING),
                ("odd", 77, 0o644, 4, good[4]),
                ("lies.txt", FILE, 0o644, 1 << 40, good[4]),
            ),
        )
        # the root itself may be anything
        store.contexts.attach_fs(2, good[4])
        whole = tree(store, good)
        for _ in range(300):
            whole = tree(store, folder("d", whole), folder("e", whole))
        store.contexts.attach_fs(3, whole)
    with mounted(store_path) as mount:
        at = mount.root / TALK / "fs/00001"
        listed = ["good.txt", "missing", "no-tree", "array", "large", "gone.txt", "long", "nowhere", "odd", "lies.txt"]
        assert os.listdir(at) == listed
        for name in ("missing", "no-tree", "array", "large"):
            with pytest.raises(OSError) as told:
                os.listdir(at / name)
            assert told.value.errno == errno.EIO
        for name in ("long", "nowhere"):
            with pytest.raises(OSError) as told:
                os.readlink(at / name)
            assert told.value.errno == errno.EIO
        with pytest.raises(OSError) as told:
            (at / "gone.txt").read_bytes()
        assert told.value.errno == errno.EIO
        assert (at / "odd").read_bytes() == b"good"
        assert mount.shell(f"cat '{at}/lies.txt'") == "good"
        with pytest.raises(OSError) as told:
            os.listdir(mount.root / TALK / "fs/00002")
        assert told.value.errno == errno.EIO
        deep = mount.root / TALK / "fs/00003" / "/".join(["d", "e"] * 150)
        assert (deep / "good.txt").read_bytes() == b"good"
        # and the rest of the mount goes on
        assert (mount.root / TALK / "events/00001-user.md").exists()
