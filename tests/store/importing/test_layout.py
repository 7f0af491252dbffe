"""The layout of a file of many conversations: any file comes back, and so do any edits, and nothing else changes."""

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fusefs.text.render import FileRenderer
from store.conversations.contexts import Append
from store.editing.editor import DELETED, Editor
from store.events.conversation import Conversation
from store.formats.core.format import About, Part
from store.importing.envelope import (
    Envelope,
    EnvelopeBuilder,
    Gaps,
    Layout,
    Share,
    levels,
    positions,
    read_layout,
    runs_of,
    settled,
)
from store.store import Store
from store.upkeep.fsck import fsck
from tests.store.importing.parted_formats import Braid, know
from tests.store.importing.sessions import exported, imported

slow = settings(
    max_examples=500 if "CONVFS_LARGE_TESTS" in os.environ else 20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

numbers = itertools.count()
LINE = st.one_of(
    st.builds(lambda key, text: f"{key}:{text}".encode(), st.sampled_from("abc"), st.integers(0, 5)),
    st.sampled_from([b"# junk", b"", b"\xff\0", b"#b=a/1", b"#c=b/2", b"  "]),
)
FILE = st.builds(
    lambda lines, end: b"\n".join(lines) + end, st.lists(LINE, max_size=14), st.sampled_from([b"", b"\n", b"\r\n\n"])
)


@pytest.fixture(autouse=True, scope="module")
def _formats() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        know(patch, Braid())
        yield


def exported_bytes(store: Store, context: int, name: str) -> bytes:
    with exported(store, store.library.conversation(context)) as files:
        return files[name]


@slow
@given(FILE, FILE)
def test_any_file_comes_back_and_what_it_became(shared: Store, tmp_path: Path, first: bytes, second: bytes) -> None:
    path = tmp_path / "some.braid"
    for content in (first or b"\n", second, first):
        path.write_bytes(content)
        imported(shared, path)
        file = shared.catalogue.by_origin("layout", str(path))[0]
        here = [talk for talk in shared.library.conversations() if talk.metadata["file"] == file.id]
        keys = {line[:1] for line in content.split(b"\n") if line[:2] in (b"a:", b"b:", b"c:")}
        for talk in here:
            if str(talk.metadata["part"]).encode() in keys:
                assert exported_bytes(shared, talk.id, path.name) == content


@slow
@given(FILE, st.data())
def test_edits_change_what_they_change(tmp_path: Path, content: bytes, data: st.DataObject) -> None:
    # no branches: a record is one conversation's alone
    content = content.replace(b"#b", b"#-").replace(b"#c", b"#-")
    path = tmp_path / f"{next(numbers)}.braid"
    path.write_bytes(content)
    with Store.open(path.with_suffix(""), renderer=FileRenderer()) as store:
        imported(store, path)
        talks = {str(talk.metadata["part"]): talk for talk in store.library.conversations()}
        expected = _edited(store, content, talks, data)
        for talk in talks.values():
            found = exported_bytes(store, talk.id, path.name)
            assert _lines(found) == expected
            if expected == _lines(content):
                assert found == content
        assert fsck(store) == []


def _edited(store: Store, content: bytes, talks: dict[str, Conversation], data: st.DataObject) -> list[bytes]:
    """Edit conversations at will, and return the lines that their file then has, but for blank ones."""
    lines = _lines(content)
    now: list[list[bytes]] = [[line] for line in lines]
    editor = Editor(store)
    for key, talk in talks.items():
        places = [at for at, line in enumerate(lines) if line.startswith(f"{key}:".encode())]
        for number, place in enumerate(places, 1):
            what = data.draw(st.sampled_from(["keep", "keep", "edit", "delete"]), label=f"{key} {number}")
            if what == "edit":
                now[place] = [f"{key}:edited {number}".encode()]
                editor.edit(talk.id, {number: now[place][0]})
            elif what == "delete":
                now[place] = []
                editor.edit(talk.id, {number: DELETED})
        if data.draw(st.booleans(), label=f"{key} more"):
            added = f"{key}:added".encode()
            editor.append(talk.id, [Append(added, "braid.line.v1")])
            now[places[-1]].append(added)
    return [line for place in now for line in place]


def _lines(content: bytes) -> list[bytes]:
    return [line for line in content.split(b"\n") if line.strip()]


GAPS = st.lists(st.sampled_from([b"", b",", b", ", b" ,\n", b"], [", b"\xff"]), min_size=1, max_size=12)


@given(GAPS, st.binary(max_size=3))
def test_gaps_that_nothing_happens_between_are_as_they_were(gaps: list[bytes], rest: bytes) -> None:
    builder = EnvelopeBuilder()
    for gap in gaps:
        builder.gap(gap)
    envelope = builder.close(rest)
    written = Gaps(envelope, b",", len(gaps))
    found = [piece for at in range(len(gaps)) for piece in (written.opening(at), written.before(at), b"%d" % at)]
    joined = [piece for at, gap in enumerate(gaps) for piece in (gap, b"%d" % at)]
    assert b"".join(found) + written.suffix == b"".join(joined) + rest


@given(GAPS, st.sets(st.integers(0, 11)), st.sets(st.integers(0, 11)))
def test_lists_stay_lists(gaps: list[bytes], gone: set[int], more: set[int]) -> None:
    # a document of lists of numbers: whatever is left out or put in, it parses
    texts = [b"[[" if at == 0 else gap if gap.strip() == b"," else b"], [" for at, gap in enumerate(gaps)]
    builder = EnvelopeBuilder()
    for text in texts:
        builder.gap(text)
    written = Gaps(builder.close(b"]]"), b",", len(gaps))
    found = b""
    for at in range(len(gaps)):
        found += written.opening(at)
        if at not in gone:
            found += written.before(at) + b"%d" % at
        if at in more:
            found += written.before(at) + b"%d" % (100 + at)
    parsed = json.loads(found + written.suffix)
    flat = [number for inner in parsed for number in inner]
    assert flat == [
        number
        for at in range(len(gaps))
        for number in (*([at] if at not in gone else []), *([100 + at] if at in more else []))
    ]
    assert len(parsed) == 1 + texts.count(b"], [")


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.sets(st.integers(0, 19)), st.sets(st.integers(0, 19)))
def test_lines_and_lists_within_lines_stay_such(sizes: list[int], gone: set[int], more: set[int]) -> None:
    # a record a line, or (where the size is not 0) a line with a list of records: whatever is left out or put in
    builder = EnvelopeBuilder()
    rest = b""
    count = 0
    for size in sizes:
        for at in range(size or 1):
            opening = rest + (b'{"all":[' if size else b"")
            builder.gap(opening if at == 0 else b",")
            count += 1
        rest = b"]}\n" if size else b"\n"
    written = Gaps(builder.close(rest), b"\n", count)
    found = b""
    for at in range(count):
        found += written.opening(at)
        if at not in gone:
            found += written.before(at) + b"[%d]" % at
        if at in more:
            found += written.before(at) + b"[%d]" % (100 + at)
    lines = [json.loads(line) for line in (found + written.suffix).splitlines() if line]
    flat = [record[0] for line in lines for record in (line["all"] if isinstance(line, dict) else [line])]
    assert flat == [
        number
        for at in range(count)
        for number in (*([at] if at not in gone else []), *([100 + at] if at in more else []))
    ]
    assert sum(isinstance(line, dict) for line in lines) == sum(size > 0 for size in sizes)


@given(GAPS, st.sets(st.integers(0, 11)), st.sets(st.integers(0, 11)))
def test_members_keep_their_keys(gaps: list[bytes], gone: set[int], more: set[int]) -> None:
    # a document of objects of numbers, each under its own name
    texts = [b'[{"\\"0" : ' if at == 0 else gap if gap.strip() == b"," else b"}, {" for at, gap in enumerate(gaps)]
    builder = EnvelopeBuilder()
    for at, text in enumerate(texts):
        builder.gap(text + b'"%d": ' % at if at else text)
    written = Gaps(builder.close(b"}]"), b",", len(gaps), keyed=True)
    found = b""
    for at in range(len(gaps)):
        found += written.opening(at)
        if at not in gone:
            found += written.before(at) + written.key(at) + b"%d" % at
        if at in more:
            found += written.before(at) + b'"new %d": %d' % (at, at)
    flat = [member for inner in json.loads(found + written.suffix) for member in inner.items()]
    assert flat == [
        member
        for at in range(len(gaps))
        for member in (
            *([(str(at) if at else '"0', at)] if at not in gone else []),
            *([(f"new {at}", at)] if at in more else []),
        )
    ]


PART = st.builds(
    lambda key, records, base, shared: Part(key, records, About(), base, shared),
    st.sampled_from(["a", "b", "a~2", ""]),
    st.lists(st.integers(-2, 12), max_size=6),
    st.integers(-3, 6),
    st.integers(-2, 20),
)


@given(st.lists(PART, max_size=6), st.integers(0, 10))
def test_parts_hold_together_whatever_a_format_says(parts: list[Part], count: int) -> None:
    found = settled(parts, count)
    assert len({part.key for part in found}) == len(found) == len(parts)
    owned = [record for part in found for record in part.records]
    assert len(set(owned)) == len(owned)
    assert all(0 <= record < count for record in owned)
    assert set(positions(found).values()) == set(range(len(owned)))
    lengths: list[int] = []
    for at, part in enumerate(found):
        assert -1 <= part.base < at
        assert 0 <= part.shared <= (lengths[part.base] if part.base >= 0 else 0)
        lengths.append(part.shared + len(part.records))
    seen: set[int] = {-1}
    for level in levels(found):
        assert all(found[at].base in seen for at in level)
        seen |= set(level)
    assert len(seen) == len(parts) + 1


@given(st.lists(st.integers(0, 30), unique=True))
def test_runs_are_the_numbers(numbers: list[int]) -> None:
    runs = runs_of(numbers)
    place = Share("a", 1, 2, runs)
    assert list(place.positions()) == numbers
    assert place.own == len(numbers)
    layout = Layout(Envelope(((0, "\xff"),), "x"), (place, Share("b", 2, 0, base=0, shared=3)))
    assert read_layout(layout.encode()) == layout
