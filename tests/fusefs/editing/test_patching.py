"""Events that are saved where ``edits = "overlay"``: patches, and what the kernel knows of them."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from store.upkeep.fsck import fsck
from tests.fusefs.editing.talk import FIRST, LAST, LINES, SECOND, Talk, changed
from tests.fusefs.tree.mounting import add, keep_each_save, mounted, new_store, until, user


@pytest.fixture
def filled(store_path: Path) -> Path:
    with new_store(store_path) as store:
        add(store, LINES)
    keep_each_save(store_path, 'edits = "overlay"')
    return store_path


@pytest.fixture
def talk(filled: Path) -> Iterator[Talk]:
    with mounted(filled) as mount:
        talk = Talk(mount)
        yield talk
        talk.check()
    with new_store(filled) as store:
        assert fsck(store) == []


def turns(talk: Talk) -> int:
    return int(json.loads((talk.mount.root / ".convfs" / "stats.json").read_text())["turns"])


def test_a_save_is_one_version_and_appends_nothing(talk: Talk) -> None:
    before, text = talk.first.read_bytes(), changed(talk.first)
    count = turns(talk)
    talk.first.write_bytes(text)
    assert talk.first.read_bytes() == text
    assert (talk.new_versions, turns(talk)) == (1, count)
    assert "Goodbye there" in talk.transcript
    versions = talk.root / ".versions"
    old, new = sorted(os.listdir(versions))
    assert (versions / old / "events" / FIRST).read_bytes() == before
    assert (versions / new / "events" / FIRST).read_bytes() == text
    for name in (SECOND, LAST):
        assert (versions / old / "events" / name).read_bytes() == (talk.events / name).read_bytes()
    # the same bytes, and the old ones once more
    talk.first.write_bytes(text)
    assert talk.new_versions == 1
    talk.first.write_bytes(before)
    assert (talk.new_versions, turns(talk)) == (2, count)


def test_programs_save_and_delete(talk: Talk) -> None:
    count = turns(talk)
    talk.shell(f"sed -i s/Hello/Goodbye/ {FIRST}")
    talk.shell(f"perl -pi -e s/General/Special/ {SECOND}")
    assert talk.new_versions == 2
    talk.shell(f"rm {SECOND}; sync .")
    talk.becomes(3)
    assert talk.listed == [FIRST, LAST]
    assert turns(talk) == count
    assert talk.shell(f"cat ../.versions/*/events/{SECOND} | grep -c ' greetings'") == "3\n"


def test_what_others_change_is_seen(talk: Talk) -> None:
    """The kernel's pages of a file go when a patch changes it, and when one is taken back."""
    first, last = talk.first.read_bytes(), talk.last.read_bytes()
    status = talk.first.stat()
    talk.mount.tell(edit=[1, {"1": user("Farewell all", 1)}])
    until(lambda: b"Farewell all" in talk.first.read_bytes())
    assert talk.first.stat().st_mtime_ns != status.st_mtime_ns
    assert talk.last.read_bytes() == last
    talk.mount.tell(edit=[1, {"4": None}])
    until(lambda: talk.listed == [FIRST, SECOND])
    talk.mount.tell(restore=[1, 2])
    until(lambda: talk.listed == [FIRST, SECOND, LAST])
    assert talk.last.read_bytes() == last
    talk.mount.tell(restore=[1, 1])
    until(lambda: talk.first.read_bytes() == first)
    assert "Hello there" in talk.transcript
    talk.mount.tell(append=[1, [user("news", 9)]])
    until(lambda: "00005-user.md" in talk.listed)


def test_a_fork_has_its_own_patches(talk: Talk) -> None:
    talk.first.write_bytes(changed(talk.first))
    talk.shell("mkdir ../forks/other ../forks/early@00002")
    talk.first.write_bytes(changed(talk.first, "Goodbye", "Farewell"))
    other = talk.root.parent / "other" / "events"
    assert (other / FIRST).read_text().count("Goodbye") == 1
    (other / LAST).write_bytes(changed(other / LAST, "third", "fourth"))
    assert "third" in talk.last.read_text()
    assert "Farewell" in talk.first.read_text()
    assert sorted(os.listdir(talk.root.parent / "early" / "events")) == [FIRST, SECOND]
    assert "Goodbye" in (talk.root.parent / "early" / "events" / FIRST).read_text()


def test_the_setting_may_change_at_any_time(filled: Path) -> None:
    states = []
    for mode in ("overlay", "branch", "overlay"):
        keep_each_save(filled, f'edits = "{mode}"')
        with mounted(filled) as mount:
            talk = Talk(mount)
            states.append((talk.first.read_text(), talk.last.read_text()))
            talk.first.write_bytes(talk.first.read_bytes().replace(b"there", b"there " + mode.encode()))
            talk.last.write_bytes(talk.last.read_bytes().replace(b"third", b"third " + mode.encode()))
            assert talk.new_versions == 2
    with mounted(filled) as mount:
        talk = Talk(mount)
        assert "there overlay branch overlay" in talk.first.read_text()
        assert "third overlay branch overlay" in talk.last.read_text()
        versions = sorted((talk.root / ".versions").iterdir())
        assert len(versions) == 7
        for version, state in zip(versions[::2], states, strict=False):
            assert ((version / "events" / FIRST).read_text(), (version / "events" / LAST).read_text()) == state
    with new_store(filled) as store:
        assert fsck(store) == []
