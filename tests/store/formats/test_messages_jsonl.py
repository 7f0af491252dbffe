import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import DamageError, NotFound, UsageError
from store.events.event import Event, Kind
from store.formats.core.look import Look
from store.formats.messages_jsonl import ALGORITHM, MessageLineLens, MessagesJsonl
from tests.store.formats.edited import edit_of, made_or_refused
from tests.store.formats.mutations import mutated

LENS, FORMAT = MessageLineLens(), MessagesJsonl()
HASH = "sha256:" + "ab" * 32
UUID = "0b9f6a3c-52a4-4a1c-8d2a-6f5d0f6f1e55"
PNG = b"\x89PNG\r\n\x1a\n\0"
LINES: list[dict[str, object]] = [
    {"role": "supervisor", "content": {"type": "text", "text": "Be brief."}},
    {"role": "user", "content": [{"type": "text", "text": "Look at"}, {"type": "image", "content_id": UUID}]},
    {"role": "user", "content": [{"type": "text", "content_id": HASH}]},
    {"role": "user", "content": {"type": "text", "content_id": HASH}},
    {"role": "assistant", "content": [{"type": "text", "text": "I see."}]},
    {"role": "assistant", "content": "I see."},
    {"role": "user", "content": [{"type": "image", "content_id": HASH}]},
]


class Contents:
    """Content by id; no earlier records."""

    def __init__(self, **contents: bytes) -> None:
        self._contents = contents

    def tool(self, call_id: str) -> str:
        return ""

    def parent(self, key: str | None) -> int:
        return 0

    def blob(self, algorithm: str, digest: bytes) -> bytes | None:
        assert algorithm == ALGORITHM
        return self._contents.get(digest.decode())


BEFORE = Contents(**{HASH: b"A long text\n", UUID: PNG})


def seen(line: object) -> Event:
    return LENS.view(json.dumps(line).encode(), BEFORE)


@pytest.mark.parametrize(
    ("line", "kind", "contents"),
    [
        (LINES[0], Kind.SYSTEM, ["Be brief."]),
        (LINES[1], Kind.USER, ["Look at", PNG]),
        (LINES[2], Kind.USER, ["A long text\n"]),
        (LINES[3], Kind.USER, ["A long text\n"]),
        (LINES[4], Kind.ASSISTANT, ["I see."]),
        (LINES[5], Kind.ASSISTANT, ["I see."]),
        (LINES[6], Kind.USER, [b"A long text\n"]),
    ],
)
def test_what_is_seen_of_a_line(line: object, kind: Kind, contents: list[str | bytes]) -> None:
    event = seen(line)
    assert event.kind is kind
    assert [block.text if block.text is not None else block.data for block in event.blocks] == contents


def test_an_image_by_id_is_a_resource() -> None:
    (resource,) = seen(LINES[1]).resources
    assert (resource.uri, resource.mime, resource.content) == (f"content:{UUID}", "image/png", PNG)


def test_content_that_is_missing_stays_a_reference() -> None:
    payload = json.dumps(LINES[3]).encode()
    event = LENS.view(payload, Contents())
    assert event.blocks[0].text == f"[content {HASH}: not in the store]"
    with pytest.raises(UsageError, match="kept elsewhere"):
        LENS.edit(payload, edit_of(event.blocks[0], "new"), Contents())


@pytest.mark.parametrize(("line", "at"), [(LINES[1], 0), (LINES[2], 0), (LINES[3], 0), (LINES[0], 0), (LINES[5], 0)])
def test_a_text_is_edited_where_it_stands_or_in_the_place_of_its_id(line: dict[str, object], at: int) -> None:
    payload = json.dumps(line).encode()
    event = LENS.view(payload, BEFORE)
    edited = json.loads(LENS.edit(payload, edit_of(event.blocks[at], 'New "text"'), BEFORE))
    content = edited["content"]
    part = content[at] if isinstance(content, list) else content
    assert part == ('New "text"' if isinstance(part, str) else {"type": "text", "text": 'New "text"'})
    assert edited | {"content": ""} == line | {"content": ""}


@pytest.mark.parametrize(
    ("previous", "content"),
    [
        (None, [{"type": "text", "text": "Go"}]),
        (b'{"role":"user","content":{"type":"text","text":"x"}}', {"type": "text", "text": "Go"}),
        (b'{"role":"user","content":"x"}', "Go"),
    ],
)
def test_messages_are_written_as_the_one_before(previous: bytes | None, content: object) -> None:
    written = LENS.compose(Kind.SYSTEM, "Go", previous, 0)
    assert json.loads(written) == {"role": "supervisor", "content": content}
    assert b"\n" not in written
    for kind, text in ((Kind.TOOL_CALL, "Go"), (Kind.USER, "")):
        with pytest.raises(UsageError):
            LENS.compose(kind, text, previous, 0)


def conversation(folder: Path, *lines: object) -> Path:
    path = folder / "app" / "conversations" / "c-1" / "messages.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def content(folder: Path, name: str, data: bytes) -> None:
    path = folder / "content" / name / "data"
    path.parent.mkdir(parents=True)
    path.write_bytes(data)


@pytest.mark.parametrize("name", [HASH, HASH.removeprefix("sha256:")])
def test_content_is_found_beside_the_conversations(tmp_path: Path, name: str) -> None:
    path = conversation(tmp_path, *LINES)
    content(tmp_path / "app", name, b"A long text\n")
    content(path.parent, UUID, PNG)
    source = FORMAT.claim(Look(path))
    assert source
    blobs = [blob for line in LINES for blob in FORMAT.blobs(source, json.dumps(line).encode())]
    assert [blob.digest.decode() for blob in blobs] == [UUID, HASH, HASH, HASH]
    assert [blob.read() for blob in blobs[:2]] == [PNG, b"A long text\n"]


@pytest.mark.parametrize("identifier", ["../../secret", "gone", "..", "a/b", "", "x\0y", "sha256:"])
def test_nothing_else_is_read(tmp_path: Path, identifier: str) -> None:
    path = conversation(tmp_path)
    content(tmp_path / "app", "../secret", b"secret")
    source = FORMAT.claim(Look(conversation(tmp_path, *LINES)))
    assert source
    line = {"role": "user", "content": [{"type": "text", "content_id": identifier}]}
    for blob in FORMAT.blobs(source, json.dumps(line).encode()):
        with pytest.raises(NotFound, match="refers to it"):
            blob.read()
    assert path.exists()


def test_content_that_cannot_be_read_is_damage(tmp_path: Path) -> None:
    path = conversation(tmp_path, *LINES)
    (path.parent / "content" / UUID / "data").mkdir(parents=True)
    source = FORMAT.claim(Look(path))
    assert source
    (blob,) = FORMAT.blobs(source, json.dumps(LINES[1]).encode())
    with pytest.raises(DamageError, match="cannot be read"):
        blob.read()


@pytest.mark.parametrize(
    ("line", "ours"),
    [
        *((line, True) for line in LINES),
        ({"role": "tool", "content": "x"}, False),
        ({"role": "user", "content": "x", "uuid": "u", "sessionId": "s"}, False),
        ({"type": "message", "role": "user", "content": []}, False),
        ({"role": "user", "content": 3}, False),
        ({"role": "user", "content": [{"type": "text"}]}, False),
        ({"messages": []}, False),
        ([], False),
    ],
)
def test_only_lines_of_messages_are_claimed(tmp_path: Path, line: object, ours: bool) -> None:
    assert (FORMAT.claim(Look(conversation(tmp_path, line))) is not None) is ours


def test_a_conversation_is_called_after_its_folder_and_first_request(tmp_path: Path) -> None:
    source = FORMAT.claim(Look(conversation(tmp_path, *LINES)))
    assert source
    about = FORMAT.about(source, [json.dumps(line).encode() for line in LINES])
    assert (about.title, about.project, about.session_id) == ("Look at", "app", "c-1")


@given(mutated(LINES), st.text(max_size=8))
def test_no_record_makes_the_lens_fail(payload: bytes, text: str) -> None:
    event = LENS.view(payload, BEFORE)
    for block in event.blocks:
        if block.text is not None:
            made_or_refused(lambda block=block: LENS.edit(payload, edit_of(block, text), BEFORE))  # type: ignore[misc]
