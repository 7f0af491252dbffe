"""Files that would no longer parse are not written."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from store.editing.editor import DELETED, Editor
from store.errors import UsageError
from store.importing import exporter
from store.importing.exporter import export_native, intact
from store.store import Store
from tests.store.importing.sessions import imported, lines, session

LINES = b'{"a": 1}\n{"b": 2}\n{"c": 3}\n'
DAMAGED = b'{"a": 1}\n{"b": \n\n{"c": 3}\n'
DOCUMENT = b'{\n  "a": [\n    1,\n    2\n  ]\n}\n'
TEXT = b"# Fix it\n\nI did.\n{not JSON\n"


def written(before: bytes, now: bytes, scratch: Path) -> bytes:
    def pieces(content: bytes) -> Iterator[bytes]:
        yield from (content[at : at + 5] for at in range(0, len(content), 5))

    return b"".join(intact("file", partial(pieces, now), partial(pieces, before), scratch))


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (LINES, LINES),
        (LINES, LINES.replace(b"1", b'"x"')),
        (LINES, b'{"a": 1}\n\n{"c": 3}\n'),
        (LINES, b""),
        (LINES, LINES + b'{"d": 4}'),
        (DAMAGED, DAMAGED.replace(b"3", b"4")),
        (DAMAGED, DAMAGED.replace(b'{"b": \n', b'{"other": \n')),
        (DAMAGED, LINES),
        (LINES + b"\0\0\n", LINES + b"a note\n"),
        (DOCUMENT, DOCUMENT.replace(b"1", b"7")),
        (DOCUMENT, b'{"a": [2]}'),
        (DOCUMENT[:-3], DOCUMENT[:-3].replace(b"1", b"7")),
        (TEXT, TEXT.replace(b"I", b"We")),
        (TEXT, b"{\n"),
        (b"", b"new\n"),
    ],
)
def test_what_parses_as_before_is_written(tmp_path: Path, before: bytes, now: bytes) -> None:
    assert written(before, now, tmp_path) == now


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        (LINES, b'{"a": 1}\n{"b": 2},\n{"c": 3}\n', "line 2 of file"),
        (LINES, b'{"a": 1}\n{"b": 2}{"c": 3}\n', "line 2 of file"),
        (DAMAGED, DAMAGED.replace(b"3", b"3,,"), "line 4 of file"),
        (DOCUMENT, DOCUMENT.replace(b"1,", b"1,,"), "file would be no JSON"),
        (DOCUMENT, DOCUMENT[:-3], "file would be no JSON"),
    ],
)
@pytest.mark.parametrize("longest", [16 << 20, 4])
def test_what_parses_no_more_is_not(
    tmp_path: Path, before: bytes, now: bytes, told: str, longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.importing.exporter._LONGEST_LINE", longest)
    with pytest.raises(UsageError, match=told):
        written(before, now, tmp_path)


def test_an_export_that_goes_wrong_leaves_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported(store, session(tmp_path, lines("One", "Two", "Three")))
    [conversation] = store.library.conversations()
    Editor(store).edit(conversation.id, {2: DELETED})
    monkeypatch.setattr(exporter.Edited, "_without", lambda edited: ((None, (b"{",)) for _row in edited._rows))
    with pytest.raises(UsageError, match=r"line 1 of .*jsonl would be no JSON"):
        export_native(store, store.library.conversation(conversation.id), tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
