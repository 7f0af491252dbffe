"""``by-resource/`` in a mount, and the extended attribute that says who holds a content."""

import errno
import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from fusefs.tree import search
from fusefs.tree.node import Directory
from fusefs.tree.router import Router
from fusefs.tree.tree import Tree
from store.ids import hash_bytes
from tests.fusefs.tree.mounting import Mounted, add, answered, mounted, new_store, until, user

SHED = "spade\nrake\n" * 100
HELD_BY = "user.convfs.held_by"



def read(uri: str, text: str, second: int) -> list[str]:
    """Return the lines of a session in which a tool reads a file."""
    use = {"type": "tool_use", "id": f"c{second}", "name": "Read", "input": {"file_path": uri}}
    result = {"type": "tool_result", "tool_use_id": f"c{second}", "content": text}
    return [
        json.dumps({"type": "assistant", "message": {"role": "assistant", "content": [use]}, "uuid": f"c{second}"}),
        json.dumps(
            {
                "type": "user",
                "message": {"role": "user", "content": [result]},
                "toolUseResult": {"type": "text", "file": {"filePath": uri, "content": text}},
                "uuid": f"r{second}",
            }
        ),
    ]


@pytest.fixture
def talks(store_path: Path) -> Iterator[Mounted]:
    """A mount of conversations that look at the same files, one of them under a name that two have."""
    with new_store(store_path) as store:
        add(store, [user("look", 1), *read("/home/ada/shed", SHED, 2), *read("/home/ada/shed/key", "iron\n", 3)])
        add(store, read("/home/ada/shed", "other\n", 4), project="other")
        add(store, read("/home/ada/my copy", SHED, 5), name="copier")
    with mounted(store_path) as here:
        yield here


def test_links_lead_to_conversations_and_events(talks: Mounted) -> None:
    assert "by-resource" not in os.listdir(talks.root)
    above = talks.root / "by-resource/home/ada"
    assert sorted(os.listdir(above)) == ["my copy", "shed"]
    assert sorted(os.listdir(above / "shed")) == [
        "2026-03-05-talk",
        "2026-03-05-talk@00003-result-Read.md",
        "2026-03-05-talk@other",
        "2026-03-05-talk@other@00002-result-Read.md",
        "key",
    ]
    link = above / "shed/2026-03-05-talk@other@00002-result-Read.md"
    assert os.readlink(link) == "../../../../conversations/other/2026-03-05-talk/events/00002-result-Read.md"
    assert link.read_text().endswith("other\n\n")
    assert "events" in os.listdir(above / "shed/2026-03-05-talk@other")
    assert sorted(os.listdir(above / "shed/key")) == ["2026-03-05-talk", "2026-03-05-talk@00005-result-Read.md"]
    assert not (above / "shed/nothing").exists()
    assert not (talks.root / "by-resource/nothing").exists()


def test_it_can_be_walked_through(talks: Mounted) -> None:
    found = talks.shell("find by-resource -type l | wc -l; find by-resource -type d | wc -l")
    assert found.split() == ["8", "6"]


def test_what_was_never_listed_is_found_and_so_is_what_comes_later(talks: Mounted) -> None:
    path = talks.root / "by-resource/home/ada/my copy/copier@00002-result-Read.md"
    assert path.read_text().endswith("rake\n\n")
    talks.tell(append=[3, read("/home/ada/my copy", "more\n", 6)])
    until(lambda: len(os.listdir(path.parent)) == 3)
    talks.tell(append=[3, read("/new", "new\n", 7)])
    until((talks.root / "by-resource/new/copier").exists)


def held_by(path: Path) -> str:
    """Return what holds the same as a file; "" if nothing does."""
    try:
        return os.getxattr(path, HELD_BY).decode()
    except OSError as error:
        if error.errno != errno.ENODATA:
            raise
        return ""


def test_contents_say_who_holds_them(talks: Mounted) -> None:
    holders = (
        "conversations/project/2026-03-05-talk/events/00003-result-Read.md\n"
        "conversations/project/copier/events/00002-result-Read.md\n"
    )
    resource = talks.root / "conversations/project/copier/resources/home/ada/my copy"
    assert held_by(resource) == holders
    assert HELD_BY not in os.listxattr(resource)
    blob = talks.root / ".convfs/blobs" / hash_bytes(SHED.encode()).hex()
    assert held_by(blob) == holders
    event = talks.root / "conversations/project/2026-03-05-talk/events/00001-user.md"
    talks.shell("mkdir conversations/project/2026-03-05-talk/forks/fork@00001")
    shared = (
        "conversations/project/2026-03-05-talk/events/00001-user.md\nconversations/project/fork/events/00001-user.md\n"
    )
    until(lambda: held_by(event) == "".join(shared))
    output = talks.root / "conversations/project/copier/artifacts/0.look.log"
    output.write_text("nobody else has this\n")
    until(lambda: held_by(output) == "conversations/project/copier/artifacts/0.look.log\n")
    talks.shell("rm -r conversations/project/copier")
    kept = holders.replace("conversations/project/copier", ".convfs/trash/copier")
    until(lambda: held_by(blob) == kept)


def test_nothing_can_be_made_there(talks: Mounted) -> None:
    for command in ("touch by-resource/x", "mkdir by-resource/home/x", "rm by-resource/home/ada/shed/2026*"):
        assert talks.run("sh", "-c", command, check=False).returncode


def test_what_is_not_among_the_first_uris_can_be_named(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_MOST_URIS", 1)
    with new_store(memory_path / "store") as store:
        add(store, [*read("/home/ada/shed", SHED, 1), *read("/home/ada/the key", "iron\n", 2)])
        tree = Tree(store)
        router = Router(tree)
        directory = router.fixed("by-resource")
        for name in ("home", "ada", "the key"):
            assert isinstance(directory, Directory)
            found = answered(partial(router.find, directory, name))
            assert found is not None
            directory = found
        assert isinstance(directory, Directory)
        listed = answered(directory.opened)
        assert [entry.name.decode() for entry in router.entries(listed, 0)] == [
            "2026-03-05-talk",
            "2026-03-05-talk@00004-result-Read.md",
        ]
        above = router.node(directory.parent)
        assert isinstance(above, Directory)
        above = answered(above.opened)
        assert [entry.name for entry in router.entries(above, 0)] == [b"shed"]
        tree.workers.end()
