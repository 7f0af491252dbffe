"""Edited conversations as their tools' files: the same bytes but for the edit."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store.conversations.contexts import Append
from store.editing.commit import Changed
from store.editing.editor import DELETED, Editor
from store.errors import UsageError
from store.importing.envelope import Envelope
from store.importing.exporter import export_native
from store.store import Store
from tests.store.editing.records import TYPE
from tests.store.importing.sessions import (
    bring,
    by_source,
    claude_source,
    event,
    exported,
    imported,
    jp,
    line,
    native,
    session,
)

JSON_LINES = (b"", b"\n", b"\n")
ARRAY = (b"[\n  ", b",\n  ", b"\n]")


@pytest.fixture(params=["branch", "overlay"])
def edits(request: pytest.FixtureRequest) -> str:
    """Return how edits are kept: whichever way, the same must come of it."""
    return str(request.param)


def texts(count: int) -> list[bytes]:
    return [line(f"Text {number}", number) for number in range(count)]


def file_of(records: list[bytes]) -> bytes:
    return b"".join(record + b"\n" for record in records)


def test_only_the_edit_differs(store: Store, editor: Editor, tmp_path: Path) -> None:
    whole = b"\n" + file_of(texts(4)) + b"\n\r\n" + texts(5)[4] + b"\r\n\n"
    path = session(tmp_path, whole)
    imported(store, path)
    context = by_source(store, path).id
    corrected = line("Corrected", 2)
    editor.edit(context, {3: corrected})
    assert native(store, path) == whole.replace(texts(3)[2], corrected)
    editor.restore(context, 1)
    assert native(store, path) == whole


def test_what_was_deleted_is_left_out_and_the_rest_linked(store: Store, editor: Editor, tmp_path: Path) -> None:
    path = session(tmp_path, file_of(texts(5)))
    imported(store, path)
    context = by_source(store, path).id
    editor.edit(context, {3: DELETED})
    records = [json.loads(record) for record in native(store, path).splitlines()]
    assert [record["uuid"] for record in records] == ["u0", "u1", "u3", "u4"]
    assert [record["parentUuid"] for record in records] == [None, "u0", "u1", "u3"]
    assert native(store, path).splitlines(keepends=True)[:2] == file_of(texts(2)).splitlines(keepends=True)
    editor.edit(context, {3: texts(3)[2]})
    assert native(store, path) == file_of(texts(5))


def test_records_that_were_added_and_moved(store: Store, editor: Editor, tmp_path: Path) -> None:
    records = texts(4)
    path = session(tmp_path, b"\n".join(records))
    imported(store, path)
    context = by_source(store, path).id
    editor.rewrite(context, [Append(b"{}", TYPE), 3, Changed(1, b"[1]"), 4])
    assert native(store, path) == b"\n".join([b"{}", records[2], b"[1]", records[3]])
    editor.append(context, [Append(b"[2]", TYPE)])
    assert native(store, path) == b"\n".join([b"{}", records[2], b"[1]", records[3], b"[2]"])
    editor.rewrite(context, [])
    assert native(store, path) == b""


def test_a_session_that_became_empty(store: Store, editor: Editor, tmp_path: Path) -> None:
    path = session(tmp_path, b"\n")
    bring(store, claude_source(path))
    editor.append(by_source(store, path).id, [Append(b"{}", TYPE), Append(b"[]", TYPE)])
    assert native(store, path) == b"{}\n[]\n"


def test_arrays(store: Store, editor: Editor, tmp_path: Path) -> None:
    folder = jp(tmp_path, [event(second=second, text=f"Text {second}") for second in range(4)])
    before = (folder / "events.json").read_bytes()
    imported(store, folder)
    context = by_source(store, folder).id
    for gone in (2, 4, 5):
        editor.edit(context, {gone: DELETED})
        assert isinstance(json.loads(native(store, folder)), list)
    assert [told["content"] for told in json.loads(native(store, folder))] == ["Text 1"]
    editor.edit(context, {1: b"{}", 3: DELETED})
    with exported(store, by_source(store, folder)) as files:
        assert files[f"{folder.name}/base_config.json"] == b"{}"
        assert json.loads(files[f"{folder.name}/events.json"]) == []
    editor.append(context, [Append(json.dumps(event(text="New")).encode(), "jp.event.v1")])
    assert [told["content"] for told in json.loads(native(store, folder))] == ["New"]
    editor.edit(context, {1: DELETED})
    with exported(store, by_source(store, folder)) as files:
        assert f"{folder.name}/base_config.json" not in files
    editor.restore(context, 1)
    assert native(store, folder) == before


def test_edited_and_grown(store: Store, editor: Editor, tmp_path: Path) -> None:
    path = session(tmp_path, file_of(texts(3)))
    imported(store, path)
    context = by_source(store, path).id
    editor.edit(context, {1: b"{}", 3: DELETED})
    path.write_bytes(file_of(texts(3)) + b"\n\n" + file_of(texts(5)[3:]))
    imported(store, path)
    assert native(store, path).startswith(b"{}\n" + texts(2)[1] + b"\n\n\n")
    editor.edit(context, {3: texts(3)[2]})
    assert native(store, path) == b"{}\n" + file_of(texts(3)[1:]) + b"\n\n" + file_of(texts(5)[3:])


def in_any_session(records: Iterable[bytes]) -> list[object]:
    """Return records without what says which session they are in, and which that was forked from."""
    told = map(json.loads, records)
    return [{key: said for key, said in one.items() if key not in ("sessionId", "forkedFrom")} for one in told]


def test_forks(store: Store, editor: Editor, tmp_path: Path) -> None:
    path = session(tmp_path, file_of(texts(4)))
    folder = jp(tmp_path, [event(second=second) for second in range(3)])
    imported(store, path, folder)
    fork = editor.fork(by_source(store, path).id, "another", at=3).context
    with exported(store, store.library.conversation(fork)) as files:
        # a fork is a session of its own
        [(own, data)] = files.items()
        assert own != "session.jsonl"
        assert in_any_session(data.splitlines()) == in_any_session(texts(3))
    editor.edit(fork, {2: DELETED})
    again = editor.fork(fork, "once more").context
    names = {own}
    for context in (fork, again):
        with exported(store, store.library.conversation(context)) as files:
            [(name, data)] = files.items()
            names.add(name)
            assert in_any_session(data.splitlines())[:1] == in_any_session(texts(1))
            assert data.count(b"\n") == 2
    assert names == {own, name}
    assert native(store, path) == file_of(texts(4))
    fork = editor.fork(by_source(store, folder).id, "17-other").context
    with (
        exported(store, store.library.conversation(fork)) as files,
        exported(store, by_source(store, folder)) as theirs,
    ):
        assert {name.replace("17-other", folder.name): content for name, content in files.items()} == theirs
    # whoever imports the session again finds its own conversation
    path.write_bytes(file_of(texts(5)))
    imported(store, path)
    assert by_source(store, path).records == 5


def test_what_no_tool_knows_cannot_be_exported(store: Store, editor: Editor, tmp_path: Path) -> None:
    context = editor.create("p", "mine").context
    with pytest.raises(UsageError, match="not imported"):
        export_native(store, store.library.conversation(context), tmp_path / "out")


@pytest.mark.parametrize("joints", [JSON_LINES, ARRAY])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_an_envelope_made_for_other_records(joints: tuple[bytes, bytes, bytes], count: int) -> None:
    opening, separator, ending = joints
    none = Envelope().rejoin(((None, (b"{}",)) for _ in range(count)), joints, 0)
    expected = opening + separator.join([b"{}"] * count) + ending if count else b""
    assert b"".join(none) == expected


gaps = st.lists(st.sampled_from(["\n", "\n\n", "\r\n", ",\n  "]), min_size=1, max_size=6)


@given(gaps, st.sampled_from(["", "\n", "\n]"]), st.sets(st.integers(0, 5)))
def test_what_is_left_keeps_what_stood_before_it(between: list[str], suffix: str, gone: set[int]) -> None:
    known = Envelope(tuple(enumerate(between)), suffix)
    records = [b"%d" % position for position in range(len(between))]
    assert b"".join(known.rejoin(((at, (r,)) for at, r in enumerate(records)), JSON_LINES, len(between))) == b"".join(
        known.join((r,) for r in records)
    )
    left = [(at, (r,)) for at, r in enumerate(records) if at not in gone]
    expected = b"".join(between[at if n else 0].encode() + b"%d" % at for n, (at, _r) in enumerate(left))
    assert b"".join(known.rejoin(left, JSON_LINES, len(between))) == (expected or between[0].encode()) + suffix.encode()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from([b"a", b"{}", b"\0", b"", b"\r", b"[1]"]), min_size=1, max_size=6).map(b"\n".join),
    st.dictionaries(st.integers(0, 5), st.sampled_from([b"x", b"{ }", b"edited"]), max_size=3),
)
def test_any_edits_of_any_file(store: Store, content: bytes, edits: dict[int, bytes]) -> None:
    path = store.root.parent / f"{store.files.turns.count}-{store.files.heads.length}.jsonl"
    path.write_bytes(content)
    bring(store, claude_source(path))
    talk = by_source(store, path)
    pieces = content.split(b"\n")
    places = [at for at, piece in enumerate(pieces) if piece]
    # what was JSON stays so (else: test_intact), and NULs before a document are taken for damage of its beginning
    fixed = (b"{}", b"[1]", b"\0", b"\r")
    edits = {at: b"{ }" if pieces[places[at]] in fixed else text for at, text in edits.items() if at < len(places)}
    Editor(store).edit(talk.id, {at + 1: text for at, text in edits.items()})
    for at, text in edits.items():
        pieces[places[at]] = text
    assert native(store, path) == b"\n".join(pieces)
