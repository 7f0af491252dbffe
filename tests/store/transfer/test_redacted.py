"""Redacted content of a store never comes back into it from another one."""

from pathlib import Path

from store.editing.keeper import Keeper
from store.events.conversation import ARTIFACTS
from store.paths import REDACTED
from store.redaction.proof import prove
from store.redaction.redaction import Redaction
from store.redaction.secrets import MARK, Secrets
from store.store import Store
from store.upkeep.remembered import Remembered
from tests.store.importing.sessions import lines, session
from tests.store.transfer.stores import brought_in, did, only, payloads, talks

SECRET = b"tr0ub4dor&3-and-more"
SECRETS = Secrets([SECRET])


def clean(store: Store) -> None:
    proof = prove(store, SECRETS, ())
    assert proof.found == []
    assert proof.unread == []


def test_a_redacted_turn_does_not_come_back(laptop: Store, desktop: Store, tmp_path: Path) -> None:
    path = session(tmp_path, lines("One", f"The password is {SECRET.decode()}", "Three"))
    brought_in(laptop, path)
    did(laptop, desktop)
    Redaction(desktop, SECRETS).run()
    # the same state, but for the secret
    for _ in range(2):
        assert did(laptop, desktop) == ["same"]
    assert len(talks(desktop)) == 1
    # and it goes on from there
    with path.open("ab") as file:
        file.write(lines("Four", start=3))
    brought_in(laptop, path)
    assert did(laptop, desktop) == ["grown"]
    there = payloads(desktop, only(desktop))
    assert (len(there), MARK in there[1]) == (4, True)
    clean(desktop)


def test_nor_in_a_conversation_that_was_never_there(laptop: Store, desktop: Store, tmp_path: Path) -> None:
    path = session(tmp_path, lines("One", f"The password is {SECRET.decode()}", "Three"))
    brought_in(laptop, path)
    did(laptop, desktop)
    Redaction(desktop, SECRETS).run()
    fork = Keeper(laptop).fork(only(laptop).id, f"with-{SECRET.decode()}", at=2)
    Keeper(laptop).describe(fork.context, {"title": f"What {SECRET.decode()} is"})
    assert did(laptop, desktop) == ["new", "same"]
    [other] = [talk for talk in talks(desktop).values() if talk.id != 1]
    assert MARK in payloads(desktop, other)[1]
    assert other.name.endswith("-redacted")
    clean(desktop)


def test_nor_in_an_output(laptop: Store, desktop: Store) -> None:
    context = Keeper(laptop).create("p", "talk").context
    laptop.artifacts.add(context, ARTIFACTS, laptop.artifacts.begin(context, ARTIFACTS, "make"), b"key " + SECRET)
    laptop.artifacts.end(context, ARTIFACTS, "0.make.log")
    did(laptop, desktop)
    Redaction(desktop, SECRETS).run()
    Keeper(laptop).fork(context, "other")
    assert did(laptop, desktop) == ["new", "same"]
    clean(desktop)


def test_the_names_of_what_is_gone_are_in_no_file(laptop: Store, tmp_path: Path) -> None:
    path = session(tmp_path, lines("One", f"The password is {SECRET.decode()}"))
    brought_in(laptop, path)
    before = laptop.turns.get(2).payload_hash
    done = Redaction(laptop, SECRETS).run()
    assert before in done.gone
    remembered = Remembered(laptop.root)
    assert remembered.instead(before) == laptop.turns.get(2).payload_hash
    assert remembered.instead(laptop.turns.get(1).payload_hash) is None
    kept = (laptop.root / REDACTED).read_bytes()
    assert before not in kept
    assert before[:8] not in kept
    assert prove(laptop, SECRETS, done.gone).found == []


def test_a_second_redaction_is_followed(laptop: Store, desktop: Store, tmp_path: Path) -> None:
    path = session(tmp_path, lines("One", f"The password is {SECRET.decode()}, and the word is sesame-open"))
    brought_in(laptop, path)
    did(laptop, desktop)
    Redaction(desktop, SECRETS).run()
    Redaction(desktop, Secrets([b"sesame-open"])).run()
    assert did(laptop, desktop) == ["same"]
    assert payloads(desktop, only(desktop))[1].count(MARK) == 2
    assert prove(desktop, Secrets([SECRET, b"sesame-open"]), ()).found == []


def test_nor_in_a_title_that_is_there(laptop: Store, desktop: Store, tmp_path: Path) -> None:
    path = session(tmp_path, lines(f"The password is {SECRET.decode()}", "Two"))
    brought_in(laptop, path)
    did(laptop, desktop)
    assert SECRET.decode() in only(desktop).title
    Redaction(desktop, SECRETS).run()
    assert SECRET.decode() not in only(desktop).title
    clean(desktop)
    with path.open("ab") as file:
        file.write(lines("Three", start=2))
    brought_in(laptop, path)
    assert did(laptop, desktop) == ["grown"]
    assert len(payloads(desktop, only(desktop))) == 3
    clean(desktop)
