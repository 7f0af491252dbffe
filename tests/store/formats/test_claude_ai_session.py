import json
from pathlib import Path

from store.formats.claude_ai import ROOT, ClaudeAi
from store.formats.core.format import Part, Source
from store.formats.core.look import Look
from tests.store.formats.exports import archive, asked, dumped, message, talk

CLAUDE = ClaudeAi()
TALK = (message("m1", "human", "Why?"), message("m2", "assistant", "So."), message("m3", "human", "Ah."))
FORKED = (
    message("m1", "human", "Why?", parent=ROOT, created_at="2025-01-01T00:00:01Z"),
    message("m2", "assistant", "So.", parent="m1", created_at="2025-01-01T00:00:02Z"),
    message("m3", "assistant", "Thus.", parent="m1", created_at="2025-01-01T00:00:03Z"),
    message("m4", "human", "Ah.", parent="m2", created_at="2025-01-01T00:00:04Z"),
)


def claimed(path: Path, content: bytes) -> Source | None:
    path.write_bytes(content)
    return CLAUDE.claim(Look(path))


def parts_of(data: bytes) -> tuple[list[bytes], list[Part]]:
    view = memoryview(data)
    spans = list(CLAUDE.spans(view, 0))
    source = Source("claude-ai", Path("x"), Path("x"))
    return [data[span.start : span.end] for span in spans], list(CLAUDE.parts(source, view, spans))


def ids(data: bytes) -> list[tuple[str, list[str], int, int]]:
    records, parts = parts_of(data)
    return [
        (part.key, [json.loads(records[at])["uuid"] for at in part.records], part.base, part.shared) for part in parts
    ]


def test_files_are_told_by_how_they_begin(tmp_path: Path) -> None:
    for content in (
        dumped(talk("c1", *TALK)),
        json.dumps(talk("c1", *TALK), indent=2).encode(),
        dumped(talk("c1"), talk("c2", *TALK)),
        dumped(talk("0a1b2c3d-0000-4000-8000-000000000000", summary="s" * 70_000)),
    ):
        assert claimed(tmp_path / "conversations.json", content) is not None
    for content in (
        b"",
        b"[]",
        dumped(asked("c1")),
        b'[{"uuid": "x", "name": "y", "docs": []}]',
        b'"chat_messages": [{',
    ):
        assert claimed(tmp_path / "other.json", content) is None
    path = archive(tmp_path / "data.zip", {"users.json": b"[]", "conversations.json": dumped(talk("c1", *TALK))})
    assert CLAUDE.claim(Look(path)) == Source("claude-ai", path, path)


def test_what_belongs_to_the_export_goes_with_it(tmp_path: Path) -> None:
    (tmp_path / "users.json").write_bytes(b"[]")
    (tmp_path / "taxes.json").write_bytes(b"[]")
    (tmp_path / "projects").mkdir()
    (tmp_path / "projects" / "0a1b2c3d-0000-4000-8000-000000000000.json").write_bytes(b"{}")
    source = claimed(tmp_path / "conversations.json", dumped(talk("c1", *TALK)))
    assert source is not None
    assert [name for name, _path in source.sidecars] == [
        "projects/0a1b2c3d-0000-4000-8000-000000000000.json",
        "users.json",
    ]


def test_messages_that_name_none_before_them_follow_in_order() -> None:
    assert ids(dumped(talk("c1", *TALK), talk("c2"), talk("c3", *TALK[:1]))) == [
        ("c1", ["m1", "m2", "m3"], -1, 0),
        ("c3", ["m1"], -1, 0),
    ]


def test_answers_that_were_asked_for_again_branch_off() -> None:
    assert ids(dumped(talk("c1", *FORKED))) == [("c1", ["m1", "m2", "m4"], -1, 0), ("c1/m3", ["m3"], 0, 1)]
    assert ids(dumped(talk("c1", *FORKED, current_leaf_message_uuid="m3"))) == [
        ("c1", ["m1", "m3"], -1, 0),
        ("c1/m2", ["m2", "m4"], 0, 1),
    ]


def test_what_conversations_say_of_themselves() -> None:
    (part,) = parts_of(json.dumps(talk("c1", *TALK, name="", project={"name": "Shop"}, model="opus")).encode())[1]
    assert part.about.title == "Why?"
    assert (part.about.project, part.about.session_id, part.about.extra) == ("Shop", "c1", {"model": "opus"})
    assert part.about.started_ms == 1_741_169_460_000
    assert parts_of(dumped(talk("c1", *TALK)))[1][0].about.project == "claude-ai"


def test_damaged_conversations_keep_what_can_be_read() -> None:
    data = dumped(talk("c1", *TALK), talk("c2", *FORKED))
    for end in range(200, len(data), 111):
        records, parts = parts_of(data[:end])
        assert sorted(at for part in parts for at in part.records) == list(range(len(records)))
        assert not parts or parts[0].key == "c1"


def test_what_is_left_is_linked_past_what_is_gone() -> None:
    records, _parts = parts_of(dumped(talk("c1", *FORKED)))
    assert CLAUDE.without(records, frozenset()) == records
    left = [json.loads(record) for record in CLAUDE.without(records, {1})]
    assert [(one["uuid"], one["parent_message_uuid"]) for one in left] == [("m1", ROOT), ("m3", "m1"), ("m4", "m1")]
    left = [json.loads(record) for record in CLAUDE.without(records, {0})]
    assert [one["parent_message_uuid"] for one in left] == [ROOT, ROOT, "m2"]
