"""``metadata.json``: what it says, and what of it may be changed."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusefs.text.metadata import internals_text, metadata_changes, metadata_said, metadata_table, metadata_text
from fusefs.text.parse import ParseError
from store.events.conversation import Conversation
from store.importing.provenance import Imported, ImportedFile

PLAIN = Conversation(7, "webshop", "fix", "Fix it", "jp", "/s", 3, 4, 2, 1_772_739_114_356, 1_772_739_115_000, 5, 6, {})
TALK = msgspec.structs.replace(
    PLAIN, metadata={"labels": ["bug", "später"], "pinned": True, "cursor": {"x": 1}, "forked_from": {"context": 1}}
)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 53), 1 << 53),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=9),
)


def changes(data: str | bytes, conversation: Conversation = TALK) -> dict[str, object]:
    text = data.encode() if isinstance(data, str) else data
    return metadata_changes(metadata_table(conversation), metadata_said(text), text)


def with_changes(**changed: object) -> str:
    return json.dumps({**json.loads(metadata_text(TALK)), **changed})


def test_what_may_be_changed_comes_first() -> None:
    lines = metadata_text(PLAIN).decode().splitlines()
    assert lines[1:4] == ['  "title": "Fix it",', '  "labels": [],', '  "pinned": false,']
    table = json.loads(metadata_text(TALK))
    assert (table["labels"], table["pinned"], table["forked_from"]) == (["bug", "später"], True, {"context": 1})
    assert "cursor" not in table


def test_what_only_imports_need_is_left_out() -> None:
    kept = {field.encode_name: 1 for kind in (Imported, ImportedFile) for field in msgspec.structs.fields(kind)}
    talk = msgspec.structs.replace(TALK, metadata=TALK.metadata | kept | {"cwd": "/x", "layout": "y" * 5000})
    table = metadata_table(talk)
    assert not table.keys() & kept.keys()
    assert table["cwd"] == "/x"
    assert json.loads(internals_text(talk)) == kept | {"layout": {"size": 5002}}


def test_events_are_told_once_they_are_known() -> None:
    unsure = msgspec.structs.replace(TALK, unsure=True)
    assert metadata_table(TALK) == metadata_table(unsure) | {"events": 2}
    # what was read before, or later
    assert changes(metadata_text(TALK), unsure) == {}
    assert changes(metadata_text(unsure), TALK) == {}
    with pytest.raises(ParseError, match='"events" cannot be changed'):
        changes(with_changes(events=9))


@pytest.mark.parametrize("conversation", [PLAIN, TALK])
def test_the_same_in_any_spelling_changes_nothing(conversation: Conversation) -> None:
    text = metadata_text(conversation)
    table = json.loads(text)
    assert changes(text, conversation) == {}
    assert changes(b"\xef\xbb\xbf" + text, conversation) == {}
    assert changes(json.dumps(table), conversation) == {}
    assert changes(json.dumps(table, indent=8, sort_keys=True).replace("\n", "\r\n"), conversation) == {}


@given(
    st.text(max_size=20),
    st.lists(st.text(min_size=1, max_size=9), unique=True, max_size=4),
    st.dictionaries(
        st.text(max_size=9),
        st.recursive(
            SCALARS,
            lambda value: st.lists(value, max_size=3) | st.dictionaries(st.text(max_size=3), value, max_size=3),
            max_leaves=6,
        ),
        max_size=4,
    ),
)
def test_whatever_the_metadata_is_writing_it_back_changes_nothing(
    title: str, labels: list[str], metadata: dict[str, object]
) -> None:
    talk = msgspec.structs.replace(PLAIN, title=title, metadata={**metadata, "labels": labels})
    assert changes(metadata_text(talk), talk) == {}


def test_what_changes() -> None:
    assert changes(with_changes(title="Another")) == {"title": "Another"}
    assert changes(with_changes(title="")) == changes(with_changes(title=None)) == {"title": None}
    assert changes(with_changes(labels=["später"])) == {"labels": ["später"]}
    assert changes(with_changes(labels=[], pinned=False)) == {"labels": None, "pinned": None}
    assert changes(with_changes(archived=True)) == {"archived": True}
    without = {
        key: value for key, value in json.loads(metadata_text(TALK)).items() if key not in ("labels", "archived")
    }
    assert changes(json.dumps(without)) == {"labels": None}
    sections = {"conversation": {"deduplication": {"enabled": False}}, "tools": {"Read": {"deduplicate": False}}}
    assert changes(with_changes(**sections)) == sections
    assert changes(with_changes(tools={})) == {}
    having = msgspec.structs.replace(TALK, metadata={**TALK.metadata, **sections})
    assert changes(metadata_text(TALK), having) == dict.fromkeys(sections)
    assert changes(metadata_text(having), having) == {}
    # of which the keeper says that they cannot be
    assert changes(with_changes(pinned="yes", labels="bug")) == {"pinned": "yes", "labels": "bug"}


def test_what_has_gone_on_meanwhile_is_no_change() -> None:
    assert changes(with_changes(records=3, events=1, updated="2026-03-05T19:31:54.356Z")) == {}


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (
            with_changes(records=9),
            1,
            '"records" cannot be changed: only title, labels, pinned, archived, conversation, tools',
        ),
        (with_changes(records="3"), 1, '"records" cannot be changed'),
        (with_changes(source="/t"), 1, '"source" cannot be changed'),
        (with_changes(context=True), 1, '"context" cannot be changed'),
        (with_changes(name="x"), 1, '"name" cannot be changed here: move the directory'),
        (with_changes(colour="red"), 1, '"colour" cannot be added: only title'),
        (with_changes(cursor={"x": 1}), 1, '"cursor" cannot be added'),
        ('{\n  "title": "x",\n  "format": "y"\n}', 3, '"format" cannot be changed'),
        ('{\n  "title": "x"\n  "format": "y"\n}', 3, "this is not JSON"),
        ('{"title": "x"}', 1, '"project" is missing: write all back, and change title'),
        ("[]", 1, "this must be an object"),
        ("", 1, "this is not JSON"),
        ("[" * 100_000, 1, "this is too much"),
        ('{"records": ' + "9" * 5000 + "}", 1, "this is too much"),
        (b'{\n"title": "\xff"}', 2, "this is not UTF-8"),
    ],
)
def test_what_is_refused(text: str | bytes, line: int, reason: str) -> None:
    with pytest.raises(ParseError) as caught:
        changes(text)
    assert caught.value.line == line
    assert caught.value.reason.startswith(reason)
