"""Sharing: one file without secrets and private names, of a store that stays as it is."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from store.errors import UsageError
from store.events.conversation import Conversation
from store.exporting.dialogue import Loss
from store.exporting.target import ExportJob
from store.redaction import sharing
from store.redaction.sharing import Private, share
from store.store import Store
from tests.store.exporting.conftest import store
from tests.store.exporting.talks import PNG, Talk, image

__all__ = ["store"]

GITHUB = "ghp_" + "a1B2c3D4e5" * 4
ASSIGNED = "xk39fjAAqpw83kd02"


@pytest.fixture
def talk(store: Store, tmp_path: Path) -> Conversation:
    talk = Talk(tmp_path)
    talk.user(f"Ada Lovelace has the key {GITHUB}, in /home/ada/shop/login.py")
    talk.calls("toolu_1", "Bash", {"command": f'export API_KEY="{ASSIGNED}"\ncat /Users/grace/.netrc /media/ada/x'})
    talk.returns("toolu_1", [{"type": "text", "text": f"-home-ada-shop\nfile:///home/ada/y {GITHUB}"}, image()])
    talk.says("No more of /srv/people/bob/work, C:\\Users\\Bob Kahn\\x or http://example.com/home/ada.html.")
    return talk.bring(store)


def shared(
    store: Store, talk: Conversation, form: str = "md", first: int = 1, last: int = 0, **private: object
) -> tuple[str, list[Loss]]:
    pieces: list[bytes] = []
    taken, lost = share(store, talk, form, Private(**private), pieces.append, first, last)  # type: ignore[arg-type]
    assert lost == []
    return b"".join(pieces).decode(), taken


@pytest.mark.parametrize("form", sharing.FORMS)
def test_nothing_private_is_in_a_shared_file(store: Store, talk: Conversation, form: str) -> None:
    text, taken = shared(store, talk, form, replace=(("Ada Lovelace", "A."),), home="/srv/people/bob")
    for private in (GITHUB, ASSIGNED, "Lovelace", "/home/ada/", "/media/ada", "-home-ada", "grace", "bob", "Kahn"):
        assert private not in text, private
    for kept in ("A. has the key [redacted], in ~/shop/login.py", "~/.netrc", "/media/user/x", "-home-user-shop", PNG):
        assert kept in text, kept
    assert "file://~/y [redacted]" in text
    assert "~/work, ~\\x or http://example.com/home/ada.html" in text
    said = [loss.line() for loss in taken]
    assert "1 secret (assigned) → [redacted] (event 2)" in said
    # the title begins with the first request
    assert any(line.endswith("secrets (github) → [redacted] (2 events: 1, 3)") for line in said), said
    assert "1 path below /Users/grace → ~ (event 2)" in said
    assert "1 image or other content that is not text: kept, and not looked through (event 3)" in said


def test_the_store_stays_as_it_is(store: Store, talk: Conversation) -> None:
    payloads = [store.contents.payload(row.turn) for row in store.records.rows(talk.head)]
    shared(store, talk)
    after = store.library.conversation(talk.id)
    assert after == talk
    assert [store.contents.payload(row.turn) for row in store.records.rows(after.head)] == payloads
    assert len(store.catalogue.versions(talk.id)) == 1


def test_a_range_of_events(store: Store, talk: Conversation) -> None:
    text, taken = shared(store, talk, first=2, last=3)
    assert [line.split(" ")[1] for line in text.splitlines() if line.startswith("## ")] == ["2", "3"]
    assert all(set(loss.events) <= {2, 3} for loss in taken)
    text, _taken = shared(store, talk, first=3)
    assert [line.split(" ")[1] for line in text.splitlines() if line.startswith("## ")] == ["3", "4"]
    with pytest.raises(UsageError, match="has no event from 7 to 9"):
        shared(store, talk, first=7, last=9)
    with pytest.raises(UsageError, match="cannot be shared as pdf"):
        shared(store, talk, "pdf")


@pytest.mark.parametrize("form", sharing.FORMS)
def test_images_are_left_out_if_asked(store: Store, talk: Conversation, form: str) -> None:
    text, taken = shared(store, talk, form, images=False)
    assert PNG not in text
    assert "[left out: image/png, 70 bytes]" in text
    assert "1 image or other content that is not text → left out (event 3)" in [loss.line() for loss in taken]


def test_paths_are_kept_if_asked(store: Store, talk: Conversation) -> None:
    text, taken = shared(store, talk, paths=False, home="/srv/people/bob")
    assert "/home/ada/shop/login.py" in text
    assert "/srv/people/bob/work" in text
    assert GITHUB not in text
    assert not any("→ ~" in loss.what or "→ user" in loss.what for loss in taken)


def test_names_that_are_no_part_of_a_path_are_kept_and_said(store: Store, tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.user("ada wrote /home/ada/x")
    conversation = talk.bring(store)
    text, taken = shared(store, conversation)
    assert "ada wrote ~/x" in text
    assert any("of ada elsewhere: kept (event 1)" in loss.line() for loss in taken)
    text, taken = shared(store, conversation, replace=(("ada wrote", "A. wrote"),))
    assert "A. wrote ~/x" in text
    # the name of the conversation has it still
    assert not any("elsewhere" in loss.what and loss.events for loss in taken)


def test_a_secret_is_found_in_any_spelling(store: Store, tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.says(f"The key is {GITHUB}.")
    arguments = json.dumps({"key": "".join(f"\\u{ord(letter):04x}" for letter in GITHUB)}).replace("\\\\", "\\")
    talk.says(f"So: {arguments}")
    text, _taken = shared(store, talk.bring(store))
    assert "So: " in text
    assert "0067" not in text


def test_what_is_drawn_is_looked_at_once_more(
    store: Store, talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raw(job: ExportJob) -> Iterator[bytes]:
        for row in job.store.records.rows(job.conversation.head):
            yield job.store.contents.payload(row.turn)

    monkeypatch.setitem(sharing.FORMS, "md", raw)
    text, _taken = shared(store, talk)
    assert "[redacted]" in text
    assert GITHUB not in text
    assert ASSIGNED not in text
