"""Sessions whose files still say what was redacted in the store: they go on, and do not bring it back."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.importing.importer import Importer, ImportReport
from store.importing.likeness import MARK, is_of
from store.redaction.proof import prove
from store.redaction.redaction import Redaction
from store.redaction.secrets import Secrets
from store.store import Store
from tests.store.importing.sessions import lines, session

SECRET = "tr0ub4dor&3"
SECRETS = Secrets([SECRET.encode()])


@pytest.fixture
def store(memory_path: Path) -> Iterator[Store]:
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        yield store


def imported(store: Store, path: Path) -> ImportReport:
    report = Importer(store).run([path])
    assert report.errors == []
    return report


def redact(store: Store) -> None:
    done = Redaction(store, SECRETS).run()
    assert prove(store, SECRETS, done.gone).found == []


def texts(store: Store) -> list[str]:
    (entry,) = store.library.conversations()
    return [
        json.loads(store.contents.payload(row.turn))["message"]["content"] for row in store.records.rows(entry.head)
    ]


@pytest.mark.parametrize("said", [f"My password is {SECRET}.", f"{SECRET}", f"{SECRET} or {SECRET}"])
def test_a_session_goes_on(store: Store, tmp_path: Path, said: str) -> None:
    content = lines("Hello.", said, "Thank you.", "You are welcome.")
    path = session(tmp_path, content)
    imported(store, path)
    clean = said.replace(SECRET, MARK.decode())
    redact(store)
    assert imported(store, path).unchanged == 1
    for number, more in enumerate(("One more.", "And one."), 4):
        content += lines(more, start=number)
        path.write_bytes(content)
        report = imported(store, path)
        assert (report.grown, report.imported, report.records) == (1, 0, 1)
        assert (
            texts(store) == ["Hello.", clean, "Thank you.", "You are welcome.", "One more.", "And one."][: number + 1]
        )
        assert prove(store, SECRETS, ()).found == []
        (entry,) = store.library.conversations()
        assert SECRET not in json.dumps(entry.metadata)
        # from the second time on, only what is new is read
        cursor = entry.metadata["cursor"]
        assert isinstance(cursor, dict)
        assert 0 < cursor["since"] < cursor["offset"]
    versions = [version.action for version in store.catalogue.versions(entry.id)]
    assert versions == ["import", "redact", "import", "import"]


def test_a_last_record_that_nothing_follows(store: Store, tmp_path: Path) -> None:
    content = lines("Hello.", f"My password is {SECRET}.")
    path = session(tmp_path, content.removesuffix(b"\n"))
    imported(store, path)
    redact(store)
    for more in (b"\n", lines("One more.", start=2), lines("And one.", start=3)):
        content = content if more == b"\n" else content + more
        path.write_bytes(content)
        imported(store, path)
    assert texts(store) == ["Hello.", f"My password is {MARK.decode()}.", "One more.", "And one."]


def test_what_was_edited_in_the_file_comes_in(store: Store, tmp_path: Path) -> None:
    path = session(tmp_path, lines("Hello.", f"My password is {SECRET}.", "Thank you."))
    imported(store, path)
    redact(store)
    path.write_bytes(lines("Hello.", "My password is secret.", "Thanks."))
    imported(store, path)
    # the one differs where the mark stands, the other does not
    assert texts(store) == ["Hello.", f"My password is {MARK.decode()}.", "Thanks."]


def test_a_file_of_many_conversations_goes_on(store: Store, tmp_path: Path) -> None:
    def talk(number: int, *said: str) -> dict[str, object]:
        return {
            "uuid": f"0d3f0000-0000-4000-8000-{number:012}",
            "name": f"Talk {number}",
            "created_at": "2026-03-05T19:00:00.000000Z",
            "updated_at": "2026-03-05T19:00:00.000000Z",
            "account": {"uuid": "a"},
            "chat_messages": [
                {
                    "uuid": f"{number}-{at}",
                    "text": text,
                    "content": [{"type": "text", "text": text}],
                    "sender": "assistant" if at % 2 else "human",
                    "created_at": "2026-03-05T19:00:00.000000Z",
                    "updated_at": "2026-03-05T19:00:00.000000Z",
                    "attachments": [],
                    "files": [],
                }
                for at, text in enumerate(said)
            ],
        }

    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([talk(1, "Hello.", f"It is {SECRET}."), talk(2, "Another.", "Yes.")]))
    assert imported(store, path).imported == 2
    redact(store)
    talks = [talk(1, "Hello.", f"It is {SECRET}.", "More."), talk(2, "Another.", "Yes.")]
    path.write_text(json.dumps(talks))
    report = imported(store, path)
    assert (report.imported, report.grown) == (0, 1)
    assert prove(store, SECRETS, ()).found == []


@pytest.mark.parametrize(
    ("kept", "brought", "same"),
    [
        (b"a [redacted] b", b"a secret b", True),
        (b"[redacted]", b"anything", True),
        (b"[redacted][redacted]", b"", True),
        (b"x[redacted]y[redacted]z", b"x1y2z", True),
        (b"x[redacted]y[redacted]z", b"x12z", False),
        (b"a [redacted] b", b"a secret c", False),
        (b"ab[redacted]bc", b"abc", False),
        (b"the same", b"the same", False),
    ],
)
def test_a_record_without_a_secret_is_known(kept: bytes, brought: bytes, same: bool) -> None:
    assert is_of(kept, brought) is same
