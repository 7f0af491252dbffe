"""Labels: directories of links, and extended attributes."""

import errno
import os
from pathlib import Path

import pytest

from tests.fusefs.editing.talk import NAME, Talk
from tests.fusefs.tree.mounting import add, errno_of, mounted, new_store, until, user

LABEL = "user.convfs.label."


def by_label(talk: Talk) -> dict[str, list[str]]:
    """Return what is in ``by-label/``."""
    root = talk.mount.root / "by-label"
    return {label: sorted(os.listdir(root / label)) for label in sorted(os.listdir(root))}


def labels(path: Path) -> list[str]:
    """Return the labels that the attributes of a conversation's directory tell of."""
    return [name.removeprefix(LABEL) for name in os.listxattr(path) if name.startswith(LABEL)]


def test_labels_as_attributes(talk: Talk) -> None:
    assert by_label(talk) == {}
    os.setxattr(talk.root, LABEL + "bug", b"")
    os.setxattr(talk.root, LABEL + "später, vielleicht", b"1")
    os.setxattr(talk.root, LABEL + "bug", b"again")
    assert labels(talk.root) == ["bug", "später, vielleicht"]
    assert os.getxattr(talk.root, LABEL + "bug") == b"1"
    assert by_label(talk) == {"bug": [NAME], "später, vielleicht": [NAME]}
    link = talk.mount.root / "by-label" / "bug" / NAME
    assert os.readlink(link) == f"../../conversations/project/{NAME}"
    assert os.path.samefile(link, talk.root)
    assert link.lstat().st_nlink == 2
    assert '"bug"' in (talk.root / "metadata.json").read_text()
    os.removexattr(talk.root, LABEL + "bug")
    assert not link.is_symlink()
    assert by_label(talk) == {"später, vielleicht": [NAME]}
    assert errno_of(lambda: os.removexattr(talk.root, LABEL + "bug")) == errno.ENODATA
    assert errno_of(lambda: os.getxattr(talk.root, LABEL + "bug")) == errno.ENODATA
    # no record was changed
    assert talk.new_versions == 0


def test_attributes_that_cannot_be_set(talk: Talk) -> None:
    version = next((talk.root / ".versions").iterdir())
    assert errno_of(lambda: os.setxattr(talk.root, LABEL + "a/b", b"")) == errno.EINVAL
    assert errno_of(lambda: os.setxattr(talk.root, LABEL, b"")) == errno.EINVAL
    assert errno_of(lambda: os.setxattr(talk.root, LABEL + "two\nlines", b"")) == errno.EINVAL
    assert errno_of(lambda: os.setxattr(version, LABEL + "bug", b"")) == errno.EROFS
    assert errno_of(lambda: os.setxattr(talk.root, "user.convfs.title", b"x")) == errno.EOPNOTSUPP
    assert errno_of(lambda: os.setxattr(talk.first, LABEL + "bug", b"")) == errno.EOPNOTSUPP
    assert (labels(talk.root), by_label(talk)) == ([], {})


def test_labels_as_links(talk: Talk) -> None:
    talk.mount.shell(f"mkdir by-label/bug && ln -s ../../conversations/project/{NAME} by-label/bug/")
    assert (labels(talk.root), by_label(talk)) == (["bug"], {"bug": [NAME]})
    talk.mount.shell(f'mkdir by-label/later && ln -s "$PWD/conversations/project/{NAME}/" by-label/later/')
    assert by_label(talk) == {"bug": [NAME], "later": [NAME]}
    talk.mount.shell(f"mkdir by-label/done; mv by-label/bug/{NAME} by-label/done/; rmdir by-label/bug")
    assert by_label(talk) == {"done": [NAME], "later": [NAME]}
    talk.mount.shell("mv by-label/done by-label/finished")
    assert by_label(talk) == {"finished": [NAME], "later": [NAME]}
    talk.mount.shell(
        "cp -a recent/* by-label/later/ 2>/dev/null; mkdir by-label/copied; cp -a recent/* by-label/copied/"
    )
    assert sorted(labels(talk.root)) == ["copied", "finished", "later"]
    talk.mount.shell(f"rm by-label/finished/{NAME}; rm -r by-label/later by-label/copied")
    assert (labels(talk.root), by_label(talk)) == ([], {"finished": []})
    talk.mount.shell("rmdir by-label/finished")
    assert by_label(talk) == {}
    assert talk.new_versions == 0


def test_links_that_cannot_be_made(talk: Talk) -> None:
    root = talk.mount.root / "by-label"
    os.mkdir(root / "bug")
    target = f"../../conversations/project/{NAME}"
    assert errno_of(lambda: os.symlink(target, root / "bug" / "other-name")) == errno.EINVAL
    assert errno_of(lambda: os.symlink("../../conversations/project/none", root / "bug" / "none")) == errno.EINVAL
    assert errno_of(lambda: os.symlink("/etc", root / "bug" / "etc")) == errno.EINVAL
    assert errno_of(lambda: os.symlink(target, root / NAME)) == errno.EPERM
    assert errno_of(lambda: os.mkdir(root / "bug")) == errno.EEXIST
    assert errno_of(lambda: os.mkdir(root / ".hidden")) == errno.EINVAL
    assert errno_of(lambda: os.mkdir(root / ("x" * 250))) == errno.ENAMETOOLONG
    assert errno_of(lambda: os.mkdir(root / "bug" / "x")) == errno.EPERM
    assert errno_of(lambda: os.close(os.open(root / "bug" / "x", os.O_CREAT | os.O_WRONLY))) == errno.EPERM
    os.symlink(target, root / "bug" / NAME)
    assert errno_of(lambda: os.symlink(target, root / "bug" / NAME)) == errno.EEXIST
    assert errno_of(lambda: os.rmdir(root / "bug")) == errno.ENOTEMPTY
    assert errno_of(lambda: os.rename(root / "bug" / NAME, root / "bug" / "other")) == errno.EPERM
    assert errno_of(lambda: os.rename(root / "bug" / NAME, talk.root / "link")) == errno.EPERM
    assert errno_of(lambda: os.rename(root / "bug", talk.root / "bug")) == errno.EPERM
    assert by_label(talk) == {"bug": [NAME]}


def test_a_label_goes_where_its_conversation_goes(talk: Talk) -> None:
    os.setxattr(talk.root, LABEL + "bug", b"")
    moved = talk.root.with_name("renamed")
    os.rename(talk.root, moved)
    link = talk.mount.root / "by-label" / "bug" / "renamed"
    assert os.path.samefile(link, moved)
    os.mkdir(moved / "forks" / "copy")
    assert by_label(talk) == {"bug": ["copy", "renamed"]}
    talk.mount.run("rm", "-r", str(moved))
    assert by_label(talk) == {"bug": ["copy"]}
    trash = talk.mount.root / ".convfs" / "trash"
    os.rename(trash / "renamed", talk.root)
    assert by_label(talk) == {"bug": [NAME, "copy"]}


@pytest.fixture
def three(store_path: Path) -> Path:
    """A store with conversations of one name, and labels that no directory can be called as."""
    with new_store(store_path) as store:
        for project in ("project", "other", "third"):
            context = add(store, [user("hello")], project=project)
            store.contexts.set_metadata(
                context, {"labels": ["a/b", "..", "bug", "x" * 300, "", 7, "two\nlines", "a\0b"]}
            )
        store.contexts.set_metadata(context, {"labels": ["a_b", "bug"], "pinned": True})
    return store_path


def test_names_that_no_directory_can_have(three: Path) -> None:
    with mounted(three) as mount:
        root = mount.root / "by-label"
        assert sorted(os.listdir(root)) == sorted(["__", "a_b", "a_b-2", "a_b-3", "bug", "two_lines", "x" * 255])
        assert os.listdir(root / "a_b") == [NAME]
        assert sorted(os.listdir(root / "a_b-2")) == [NAME, f"{NAME}@other"]
        assert sorted(os.listdir(root / "bug")) == [NAME, f"{NAME}@other", f"{NAME}@third"]
        conversation = mount.root / "conversations" / "project" / NAME
        assert labels(conversation) == ["a/b", "..", "bug", "two\nlines"]
        # they can be taken away, and others be given, all the same
        os.removexattr(conversation, LABEL + "a/b")
        os.setxattr(conversation, LABEL + "new", b"")
        os.unlink(root / "two_lines" / NAME)
        assert labels(conversation) == ["..", "bug", "new"]
        assert os.listdir(root / "a_b-3") == [f"{NAME}"]


def test_a_listing_goes_on_where_it_was_while_labels_change(three: Path) -> None:
    with mounted(three) as mount:
        root = mount.root / "by-label"
        inodes = {entry.name: entry.inode() for entry in os.scandir(root)}
        links = {entry.name: entry.inode() for entry in os.scandir(root / "bug")}
        with os.scandir(root / "bug") as listing:
            first = next(listing).name
            os.unlink(root / "bug" / first)
            assert {first, *(entry.name for entry in listing)} >= {f"{NAME}@third"}
        assert {entry.name: entry.inode() for entry in os.scandir(root)} == inodes
        left = {entry.inode() for entry in os.scandir(root / "bug")}
        assert left < set(links.values())
        assert len(left) == 2
        mount.run("find", "by-label", "-ls")


def test_another_programs_change_shows(talk: Talk) -> None:
    talk.mount.tell(metadata=[1, {"labels": ["theirs"]}])
    until(lambda: os.listdir(talk.mount.root / "by-label") == ["theirs"])
    assert by_label(talk) == {"theirs": [NAME]}
    link = talk.mount.root / "by-label" / "theirs" / NAME
    assert link.is_dir()
    talk.mount.tell(metadata=[1, {"labels": None}])
    until(lambda: os.listdir(talk.mount.root / "by-label") == [])
    assert not link.is_symlink()


def test_pinned_and_archived(three: Path) -> None:
    with mounted(three) as mount:
        recent = mount.root / "recent"
        assert len(os.listdir(recent)) == 3
        mount.tell(metadata=[2, {"archived": True}])
        until(lambda: sorted(os.listdir(recent)) == [NAME, f"{NAME}@third"])
        assert os.path.samefile(recent / f"{NAME}@third", mount.root / "conversations" / "third" / NAME)


def test_a_label_of_very_many_gets_another_name(tmp_path: Path) -> None:
    with new_store(tmp_path) as store:
        for number in range(200):
            add(store, [user("Hello", 1)], name=f"talk-{number}")
    with mounted(tmp_path) as mount:
        top, root = mount.root / "by-label", mount.root / "conversations" / "project"
        for path in root.iterdir():
            os.setxattr(path, LABEL + "bug", b"")
        os.setxattr(root / "talk-7", LABEL + "kept", b"")
        os.rename(top / "bug", top / "done")
        assert sorted(os.listdir(top)) == ["done", "kept"]
        assert len(os.listdir(top / "done")) == 200
        assert sorted(labels(root / "talk-7")) == ["done", "kept"]
        assert '"done"' in (root / "talk-9" / "metadata.json").read_text()
        # again, and back: nothing of the first is remembered
        os.rename(top / "done", top / "bug")
        os.rename(top / "bug", top / "done")
        assert sorted(os.listdir(top)) == ["done", "kept"]
        assert errno_of(lambda: os.rename(top / "done", top / "kept")) != 0
