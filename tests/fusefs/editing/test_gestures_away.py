"""Each gesture while the space is away: it is refused and changes nothing, or waits as a saved text does."""

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from store.conversations.contexts import Append
from store.editing.editor import Editor
from store.events.conversation import ARTIFACTS
from tests.fusefs.editing.talk import NAME, Talk, changed
from tests.fusefs.editing.test_crashes import kill
from tests.fusefs.editing.test_space_away import Two, two
from tests.fusefs.tree.mounting import TYPE, add, errno_of, until, user

__all__ = ["two"]

OTHER = "2026-03-06-other"
GONE = "2026-03-07-gone"
LABEL = "user.convfs.label.keep"
NEW_LABEL = "user.convfs.label.new"

Gesture = Callable[[Talk], object]


def label(talk: Talk, name: str = "keep") -> Path:
    return talk.mount.root / "by-label" / name


def other(talk: Talk) -> Path:
    return talk.root.with_name(OTHER)


def project(talk: Talk) -> Path:
    return talk.root.parent


def trashed(talk: Talk) -> Path:
    return talk.mount.root / ".convfs" / "trash" / GONE


def listed(path: Path) -> Path:
    """List a directory, as a program does that is about to copy it."""
    os.listdir(path)
    return path


def scratch(talk: Talk, text: bytes) -> Path:
    path = talk.root / "scratch"
    path.write_bytes(text)
    return path


REFUSED: dict[str, Gesture] = {
    "remove a conversation": lambda talk: shutil.rmtree(talk.root),
    "rename a conversation": lambda talk: os.rename(talk.root, talk.root.with_name("renamed")),
    "move a conversation": lambda talk: os.rename(talk.root, project(talk).with_name("second") / NAME),
    "make a conversation": lambda talk: os.mkdir(talk.root.with_name("made")),
    "fork": lambda talk: os.mkdir(talk.root / "forks" / "forked"),
    "fork in the middle": lambda talk: os.mkdir(talk.root / "forks" / "forked@00001"),
    "copy a conversation": lambda talk: os.mkdir(listed(talk.root).with_name("copied")),
    "rename a project": lambda talk: os.rename(project(talk), project(talk).with_name("renamed")),
    "bring back from the trash": lambda talk: os.rename(trashed(talk), project(talk) / GONE),
    "give a label": lambda talk: os.setxattr(talk.root, NEW_LABEL, b""),
    "take a label": lambda talk: os.removexattr(other(talk), LABEL),
    "link a conversation to a label": lambda talk: os.symlink(
        f"../../conversations/project/{NAME}", label(talk) / NAME
    ),
    "remove a link from a label": lambda talk: os.unlink(label(talk) / OTHER),
    "move a link to another label": lambda talk: os.rename(label(talk) / OTHER, label(talk, "second") / OTHER),
    "rename a label": lambda talk: os.rename(label(talk), label(talk, "renamed")),
    "move a file onto an event": lambda talk: os.rename(scratch(talk, changed(talk.first)), talk.first),
    "rename an output": lambda talk: os.rename(
        talk.root / "artifacts" / "0.make.log", talk.root / "artifacts" / "0.test.log"
    ),
}
"""The gestures that are answered with EHOSTUNREACH."""

TREES = ("conversations", "transcripts", "by-label", ".convfs/trash")


def seen(talk: Talk) -> dict[str, bytes | str]:
    """Return all that a program sees of the conversations, but for what says when something was changed."""
    found: dict[str, bytes | str] = {}
    for tree in TREES:
        for folder, folders, names in os.walk(talk.mount.root / tree):
            found[folder] = " ".join(sorted(os.listxattr(folder)))
            for name in (*folders, *names):
                path = Path(folder, name)
                if path.is_symlink():
                    found[str(path)] = os.readlink(path)
                elif path.is_file() and name != "scratch":
                    found[str(path)] = path.read_bytes()
    return found


@pytest.fixture
def cut(two: Two) -> Iterator[tuple[Two, Talk]]:
    """Give a mount with a second conversation that has a label, one in the trash, and an output; the space is away."""
    with ExitStack() as held:
        talk = two.mount(held)
        other_context = add(two.other, [user("Another")], name=OTHER)
        gone = add(two.other, [user("Gone")], name=GONE)
        two.other.contexts.set_metadata(other_context, {"labels": ["keep"]})
        two.other.artifacts.add(two.context, ARTIFACTS, two.other.artifacts.begin(two.context, ARTIFACTS, "make"), b"1")
        two.other.artifacts.end(two.context, ARTIFACTS, "0.make.log")
        until(lambda: (label(talk) / OTHER).is_symlink() and project(talk).with_name("project").is_dir())
        until(lambda: (project(talk) / GONE).is_dir() and (talk.root / "artifacts" / "0.make.log").exists())
        shutil.rmtree(project(talk) / GONE)
        os.mkdir(label(talk, "second"))
        os.mkdir(project(talk).with_name("second"))
        assert gone
        two.lines[0].cut()
        yield two, talk


def test_what_changes_more_than_a_file_is_refused_and_changes_nothing(cut: tuple[Two, Talk]) -> None:
    two, talk = cut
    before = seen(talk)
    for name, gesture in REFUSED.items():
        assert errno_of(partial(gesture, talk)) == errno.EHOSTUNREACH, name
        assert seen(talk) == before, name
    two.lines[0].heal()
    # the first gesture that is not refused any more
    until(lambda: not errno_of(lambda: os.setxattr(talk.root, NEW_LABEL, b"")))
    two.other.writer.catch_up()
    assert two.other.catalogue.entry(two.context).labels == ["new"]
    os.removexattr(talk.root, NEW_LABEL)
    changes = {path for path, text in seen(talk).items() if before.get(path) != text}
    assert {Path(path).name for path in changes} <= {"metadata.json", f"{NAME}.md"}


def title(talk: Talk, text: str) -> bytes:
    said = json.loads((talk.root / "metadata.json").read_bytes())
    return json.dumps(said | {"title": text}).encode()


def transcript(talk: Talk) -> Path:
    return talk.mount.root / "transcripts" / "project" / f"{NAME}.md"


WAITS: dict[str, tuple[Gesture, Gesture]] = {
    "save an event": (
        lambda talk: talk.first.write_bytes(changed(talk.first)),
        lambda talk: b"Goodbye there" in talk.first.read_bytes(),
    ),
    "change the title": (
        lambda talk: (talk.root / "metadata.json").write_bytes(title(talk, "Another title")),
        lambda talk: b"Another title" in (talk.root / "metadata.json").read_bytes(),
    ),
    "save a transcript": (
        lambda talk: transcript(talk).write_bytes(changed(transcript(talk), "third and last", "third")),
        lambda talk: b"The third" in transcript(talk).read_bytes(),
    ),
    "remove an event": (lambda talk: os.unlink(talk.second), lambda talk: not talk.second.exists()),
    "make an event": (
        lambda talk: (talk.events / "assistant.md").write_bytes(b"One more.\n"),
        lambda talk: b"One more." in (talk.events / "assistant.md").read_bytes(),
    ),
}
"""The gestures that wait, each with a check of what is seen of it at once and ever after."""


def committed(two: Two) -> dict[str, object]:
    """Return what the other machine has of all that."""
    two.other.writer.catch_up()
    conversation = two.other.library.conversation(two.context)
    rows = two.other.records.rows(conversation.head)
    texts = [b"" if row.deleted else two.other.contents.payload(row.turn) for row in rows]
    words = (b"Goodbye there", b"greetings", b"The third", b"The third and last", b"One more.")
    return {"title": conversation.title} | {word.decode(): sum(word in text for text in texts) for word in words}


ALL = {"title": "Another title", "Goodbye there": 1, "greetings": 0, "The third": 1, "The third and last": 0} | {
    "One more.": 1
}


def make_all(talk: Talk) -> None:
    for name, (gesture, is_so) in WAITS.items():
        gesture(talk)
        assert is_so(talk), name
    until(lambda: talk.errors.count("and committed once it can be") == len(WAITS) - 1)
    until(lambda: talk.errors.count("what was removed is hidden, and removed once it can be") == 1)
    assert all(is_so(talk) for _gesture, is_so in WAITS.values())


def all_is_committed(two: Two, talk: Talk) -> None:
    two.lines[0].heal()
    until(lambda: committed(two) == ALL)
    until(lambda: not talk.errors)
    assert all(is_so(talk) for _gesture, is_so in WAITS.values())
    assert not [name for name in os.listdir(talk.events) if "draft" in name]
    assert not os.listdir(talk.mount.store / "scratch" / ".drafts")


def test_what_waits_is_committed_in_its_order(two: Two) -> None:
    with ExitStack() as held:
        talk = two.mount(held)
        two.lines[0].cut()
        make_all(talk)
        all_is_committed(two, talk)


def test_removals_that_wait_are_the_last_ones_after_a_restart(two: Two) -> None:
    try:
        with ExitStack() as held:
            talk = two.mount(held)
            two.lines[0].cut()
            texts = {path.name: path.read_bytes() for path in (talk.first, talk.second, talk.last)}
            os.unlink(talk.first)
            until(lambda: "what was removed is hidden" in talk.errors)
            # it goes with what was saved in it
            talk.second.write_bytes(changed(talk.second, "greetings", "regards"))
            os.unlink(talk.second)
            # it is there again
            talk.first.write_bytes(texts[talk.first.name])
            os.unlink(talk.last)
            kill(talk.mount)
    except AssertionError:
        assert talk.mount.daemon.returncode is not None
    with ExitStack() as held:
        talk = two.mount(held)
        assert talk.listed == [talk.first.name]
        two.lines[0].heal()
        until(lambda: committed(two)["greetings"] == committed(two)["The third"] == 0)
        until(lambda: not talk.errors)
        assert talk.listed == [talk.first.name]
        assert talk.first.read_bytes() == texts[talk.first.name]
        assert not os.listdir(talk.mount.store / "scratch" / ".drafts")


@pytest.mark.parametrize("ends", ["killed", "unmounted"])
def test_what_an_earlier_mount_has_left_is_committed_by_the_one_that_runs(two: Two, ends: str) -> None:
    try:
        with ExitStack() as held:
            talk = two.mount(held)
            two.lines[0].cut()
            make_all(talk)
            if ends == "killed":
                kill(talk.mount)
    except AssertionError:
        assert ends == "killed"
        assert talk.mount.daemon.returncode is not None
    with ExitStack() as held:
        talk = two.mount(held)
        assert all(is_so(talk) for _gesture, is_so in WAITS.values())
        until(lambda: talk.errors.count("once it can be") == len(WAITS))
        all_is_committed(two, talk)


def text_there(two: Two, number: int) -> bytes:
    two.other.writer.catch_up()
    row = two.other.records.rows(two.other.library.conversation(two.context).head)[number - 1]
    return two.other.contents.payload(row.turn)


def test_the_last_text_of_a_file_is_committed_and_nothing_in_the_place_of_a_text_that_was_saved(two: Two) -> None:
    with ExitStack() as held:
        talk = two.mount(held)
        two.lines[0].cut()
        once, twice = changed(talk.first, new="Once"), changed(talk.first, new="Twice")
        talk.first.write_bytes(once)
        talk.first.write_bytes(twice)
        assert talk.first.read_bytes() == twice
        for wrong in (twice.replace(b"event: 1", b"event: 2"), b""):
            assert errno_of(partial(talk.first.write_bytes, wrong)) == (errno.EINVAL if wrong else 0)
            until(lambda: talk.first.read_bytes() == twice)
        os.truncate(talk.first, 0)
        until(lambda: talk.first.read_bytes() == twice)
        two.lines[0].heal()
        until(lambda: b"Twice there" in text_there(two, 1))
        assert talk.first.read_bytes() == twice
        assert talk.new_versions == 1
        assert (talk.events / "00001-user.md.draft").read_bytes() == twice.replace(b"event: 1", b"event: 2")


def test_a_waiting_text_is_written_back_to_what_was_there(two: Two) -> None:
    with ExitStack() as held:
        talk = two.mount(held)
        before = talk.first.read_bytes()
        two.lines[0].cut()
        talk.first.write_bytes(changed(talk.first))
        talk.first.write_bytes(before)
        until(lambda: not talk.errors)
        two.lines[0].heal()
        talk.second.write_bytes(changed(talk.second, "greetings", "regards"))
        until(lambda: b"regards" in text_there(two, 2))
        assert b"Hello there" in text_there(two, 1)


def test_what_is_saved_otherwise_in_two_files_is_kept_beside_the_later_one(two: Two) -> None:
    with ExitStack() as held:
        talk = two.mount(held)
        two.lines[0].cut()
        talk.first.write_bytes(changed(talk.first, "Hello", "Goodbye"))
        later = changed(transcript(talk), "Hello", "Farewell")
        transcript(talk).write_bytes(later)
        two.lines[0].heal()
        until(lambda: b"Goodbye there" in text_there(two, 1))
        until(lambda: "the text is kept as" in talk.errors)
        [line] = talk.errors.splitlines()
        assert line == (
            f"project/{NAME}/{NAME}.md: event 1 was changed in the meantime: compare, and save again;"
            f" the text is kept as {NAME}.md.draft"
        )
        assert transcript(talk).with_name(f"{NAME}.md.draft").read_bytes() == later


def test_what_another_machine_says_of_another_event_stands_beside_it(two: Two) -> None:
    with ExitStack() as held:
        talk = two.mount(held)
        two.lines[0].cut()
        section = b"\n## assistant\n\nOne more.\n"
        transcript(talk).write_bytes(changed(transcript(talk)) + section)
        until(lambda: "once it can be" in talk.errors)
        Editor(two.other).append(two.context, [Append(user("Of another machine").encode(), TYPE)])
        two.lines[0].heal()
        until(lambda: b"One more." in text_there(two, 5))
        assert b"Goodbye there" in text_there(two, 1)
        assert b"Of another machine" in text_there(two, 6)
        until(lambda: not talk.errors)


def test_a_conversation_that_is_not_removed_has_what_was_saved_in_it(two: Two) -> None:
    with ExitStack() as held:
        talk = two.mount(held)
        two.lines[0].cut()
        text = changed(talk.first)
        talk.first.write_bytes(text)
        metadata = title(talk, "Another title")
        (talk.root / "metadata.json").write_bytes(metadata)
        assert errno_of(lambda: shutil.rmtree(talk.root)) == errno.EHOSTUNREACH
        assert talk.first.read_bytes() == text
        assert (talk.root / "metadata.json").read_bytes() == metadata
        two.lines[0].heal()
        until(lambda: b"Goodbye there" in text_there(two, 1))
        until(lambda: not talk.errors)
        assert talk.first.read_bytes() == text
        assert committed(two)["title"] == "Another title"


@pytest.mark.parametrize("saved", [False, True])
def test_an_event_that_is_removed_and_made_again_waits_as_one_that_is_saved(two: Two, saved: bool) -> None:
    with ExitStack() as held:
        talk = two.mount(held)
        text = changed(talk.first)
        two.lines[0].cut()
        if saved:
            talk.first.write_bytes(changed(talk.first, new="Before"))
        os.rename(talk.first, talk.root / "backup")
        talk.first.write_bytes(text)
        os.unlink(talk.first)
        talk.first.write_bytes(text)
        assert talk.first.read_bytes() == text
        two.lines[0].heal()
        until(lambda: b"Goodbye there" in text_there(two, 1))
        until(lambda: not talk.errors)
        assert not os.listdir(talk.mount.store / "scratch" / ".drafts")


def test_what_waits_in_an_event_goes_with_it(two: Two) -> None:
    with ExitStack() as held:
        talk = two.mount(held)
        two.lines[0].cut()
        talk.first.write_bytes(changed(talk.first))
        os.unlink(talk.first)
        until(lambda: "what was removed is hidden" in talk.errors)
        two.lines[0].heal()
        until(lambda: not talk.errors)
        assert not talk.first.exists()
        two.other.writer.catch_up()
        assert two.other.records.rows(two.other.library.conversation(two.context).head)[0].deleted
        assert not os.listdir(talk.mount.store / "scratch" / ".drafts")


def test_an_event_that_another_machine_has_changed_is_not_removed(two: Two) -> None:
    with ExitStack() as held:
        talk = two.mount(held)
        two.lines[0].cut()
        os.unlink(talk.first)
        until(lambda: "what was removed is hidden" in talk.errors)
        payload = text_there(two, 1).replace(b"Hello", b"Goodbye")
        Editor(two.other).edit(two.context, {1: payload})
        two.lines[0].heal()
        until(lambda: talk.first.exists() and b"Goodbye" in talk.first.read_bytes())
        assert not os.listdir(talk.mount.store / "scratch" / ".drafts")
