import base64
import hashlib
import json
from pathlib import Path

import pytest
import zstandard

from store.errors import DamageError, NotFound
from store.formats.core.format import About, Source
from store.formats.core.look import Look
from store.formats.pi.session import Pi, PiCompressed
from store.formats.pi.slot import title_slot
from tests.store.formats.test_pi_lens import IMAGE, assistant, call, entry, payload, result, said, slot, text

PI = Pi()
NAME = "2026-01-20T04-15-00-614Z_1f9d2a6b"
HEADER: dict[str, object] = {
    "type": "session",
    "version": 3,
    "id": "1f9d2a6b",
    "timestamp": "2026-01-20T04:15:00.614Z",
    "cwd": "/home/ada/shop",
}


def content(*records: dict[str, object] | bytes) -> bytes:
    return b"".join((record if isinstance(record, bytes) else payload(record)) + b"\n" for record in records)


def write(path: Path, *records: dict[str, object] | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content(*records))
    return path


def session(agent: Path, *records: dict[str, object] | bytes, name: str = NAME) -> Path:
    return write(agent / "sessions" / "--home-ada-shop--" / f"{name}.jsonl", *records)


def about(path: Path) -> About:
    source = PI.claim(Look(path))
    assert source
    data = path.read_bytes()
    return PI.about(source, [data[span.start : span.end] for span in PI.spans(memoryview(data), 0)])


@pytest.mark.parametrize(
    "first",
    [
        HEADER,
        slot(""),
        {"type": "session", "id": "x", "timestamp": "2025-12-09T00:53:29.825Z", "cwd": "/", "provider": "anthropic"},
        entry("message", message={"role": "user", "content": "hi"}),
        entry("thinking_level_change", thinkingLevel="low"),
        {"type": "message", "timestamp": "2025-12-09T00:53:29.825Z", "message": {"role": "toolResult"}},
        b'{"type":"session","id":"cut","timestamp":"t","cwd":"/home/a',
    ],
)
def test_sessions_are_claimed_wherever_they_lie(tmp_path: Path, first: dict[str, object] | bytes) -> None:
    path = write(tmp_path / "backup.jsonl", first)
    assert PI.claim(Look(path)) == Source("pi", path, path, folder=path.with_suffix(""))


ENDED = "2026-09-01T08-30-00.250Z"


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        (f"a.jsonl.reset.{ENDED}", True),
        (f"a.jsonl.deleted.{ENDED}.{'0a' * 16}", True),
        ("a.jsonl.migrated.2", True),
        (f"a.jsonl.bak.{ENDED}", False),
        (f"a.jsonl.reset.{ENDED}.1.tmp", False),
        (f"a.json.reset.{ENDED}", False),
    ],
)
def test_sessions_of_openclaw_that_have_ended_have_names_of_their_own(tmp_path: Path, *, name: str, ours: bool) -> None:
    path = write(tmp_path / name, HEADER)
    assert (PI.claim(Look(path)) is not None) is ours
    packed = path.with_name(f"{name}.zst")
    packed.write_bytes(zstandard.compress(path.read_bytes()))
    # beside the lines it is no session
    assert PiCompressed().claim(Look(packed)) is None
    path.unlink()
    assert (PiCompressed().claim(Look(packed)) is not None) is ours


@pytest.mark.parametrize("damaged", [b"", b"\0" * 40, b"not json"])
def test_empty_and_damaged_ones_are_claimed_by_name_and_place(tmp_path: Path, damaged: bytes) -> None:
    assert PI.claim(Look(session(tmp_path, damaged)))
    assert not PI.claim(Look(session(tmp_path, damaged, name="notes")))
    assert not PI.claim(Look(write(tmp_path / f"{NAME}.jsonl", damaged)))


@pytest.mark.parametrize(
    "record",
    [
        {"type": "user", "uuid": "1", "parentUuid": None, "sessionId": "s", "message": {"role": "user"}},
        {"type": "session.start", "data": {}, "id": "1", "parentId": None, "timestamp": "2026-01-20T04:15:00Z"},
        {"type": "session_meta", "timestamp": "2026-01-20T04:15:00Z", "payload": {"id": "1", "cwd": "/"}},
        {"type": "message", "role": "user", "content": [], "id": None},
        {"role": "user", "content": "hi"},
    ],
)
def test_other_tools_are_left_alone(tmp_path: Path, record: dict[str, object]) -> None:
    assert not PI.claim(Look(session(tmp_path, record)))
    assert not PI.claim(Look(write(tmp_path / "pi.txt", HEADER)))
    assert not PI.claim(Look(tmp_path))


def test_where_sessions_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PI_CODING_AGENT_SESSION_DIR", "PI_CODING_AGENT_DIR", "PI_CONFIG_DIR", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    usual = [home / ".pi/agent/sessions", home / ".omp/agent/sessions", home / ".omp/profiles/office/agent/sessions"]
    usual.append(home / ".local/share/omp/sessions")
    moved = [tmp_path / "s", tmp_path / "agent/sessions"]
    for folder in (*usual, *moved, tmp_path / "data/omp/sessions"):
        folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    assert list(PI.homes(home, tmp_path)) == usual
    monkeypatch.setenv("PI_CODING_AGENT_SESSION_DIR", str(moved[0]))
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path / "agent"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert list(PI.homes(home, tmp_path)) == [*moved, *usual[:3], tmp_path / "data/omp/sessions"]
    assert list(PI.homes(tmp_path, tmp_path)) == []


def test_what_a_session_says_of_itself(tmp_path: Path) -> None:
    asked = said("user", [IMAGE, text("Fix the login\nplease")])
    path = session(tmp_path, slot(""), {**HEADER, "parentSession": f"/a/{NAME}x.jsonl"}, asked)
    assert about(path) == About(
        "Fix the login", "shop", 1768882500614, "1f9d2a6b", {"cwd": "/home/ada/shop"}, "1f9d2a6bx"
    )
    child = write(path.with_suffix("") / "0-Explore.jsonl", HEADER, said("user", "Look around"))
    assert about(child).extra == {"cwd": "/home/ada/shop", "agent": "0-Explore", "parent_session": "1f9d2a6b"}
    assert about(session(tmp_path, slot("Login"), HEADER, asked)).title == "Login"
    assert about(session(tmp_path, {**HEADER, "title": "First"}, asked)).title == "First"
    renamed = [entry("session_info", name="Second"), entry("title_change", title="Third", source="user")]
    assert about(session(tmp_path, {**HEADER, "title": "First"}, asked, *renamed)).title == "Third"
    assert about(session(tmp_path, {**HEADER, "cwd": "C:\\Users\\ada\\shop"})).project == "shop"
    assert about(session(tmp_path, asked)).project == "home-ada-shop"


def test_blobs_are_verified(tmp_path: Path) -> None:
    reference = "blob:sha256:" + hashlib.sha256(b"image").hexdigest()
    path = session(tmp_path / "agent", HEADER)
    source = PI.claim(Look(path))
    assert source
    assert not list(PI.blobs(source, payload(said("user", f"in a text: {reference} or blob:sha256:12"))))
    [blob] = PI.blobs(source, payload(said("user", [{**IMAGE, "data": reference}, {**IMAGE, "data": reference}])))
    with pytest.raises(NotFound, match="refers to it"):
        blob.read()
    file = tmp_path / "agent" / "blobs" / reference[12:]
    file.parent.mkdir()
    file.write_bytes(b"image")
    assert blob.read() == b"image"
    file.write_bytes(b"other")
    with pytest.raises(DamageError, match="not what its name says"):
        blob.read()


def lines(*records: dict[str, object]) -> list[bytes]:
    return [payload(record) for record in records]


def test_what_followed_a_deleted_line_follows_the_one_before_it() -> None:
    records = [HEADER, *(entry("custom", key, parent) for key, parent in [("a", None), ("b", "a"), ("c", "b")])]
    left = [json.loads(line) for line in PI.without(lines(*records), {2})]
    assert [(line["id"], line.get("parentId")) for line in left[1:]] == [("a", None), ("c", "a")]
    assert PI.without(lines(*records), set()) == lines(*records)


def test_a_call_and_its_result_go_together() -> None:
    both = assistant(text("Look"), call("read", "t1"), call("read", "t2"))
    other = {**result(text("x")), "id": "r"}
    records = lines(HEADER, both, other)
    left = PI.without(records, {2})
    assert len(left) == 2
    assert [part.get("id") for part in json.loads(left[1])["message"]["content"]] == [None, "t2"]
    assert PI.without(lines(HEADER, assistant(call("read", "t1")), other), {1}) == [records[0]]
    assert PI.without(lines(HEADER, assistant(call("read", "t1")), other), {2}) == [records[0]]


def test_labels_go_with_what_they_mark_and_compactions_keep_what_is_left() -> None:
    records = [
        HEADER,
        entry("custom", "a"),
        entry("custom", "b", "a"),
        entry("label", "l", "b", targetId="a", label="x"),
        entry("label", "m", "l", targetId="l", label="of the label"),
        entry("compaction", "c", "m", summary="s", firstKeptEntryId="a", tokensBefore=1),
    ]
    left = [json.loads(line) for line in PI.without(lines(*records), {1})]
    assert [line["id"] for line in left[1:]] == ["b", "c"]
    assert (left[-1]["parentId"], left[-1]["firstKeptEntryId"]) == ("b", "b")
    first = [{"type": "message", "timestamp": "t", "message": {"role": "user", "content": str(at)}} for at in range(3)]
    compaction = {"type": "compaction", "summary": "s", "firstKeptEntryIndex": 2}
    left = [json.loads(line) for line in PI.without(lines(HEADER, *first, compaction), {1})]
    assert left[-1]["firstKeptEntryIndex"] == 1


def test_only_images_of_some_size_in_content_go_outside() -> None:
    large, small = base64.b64encode(bytes(range(256)) * 4).decode(), IMAGE["data"]
    image = {"type": "image", "data": large, "mimeType": "image/png"}
    reference = "blob:sha256:" + hashlib.sha256(bytes(range(256)) * 4).hexdigest()
    record = payload(
        said("user", [text("Look"), image, IMAGE, {**image, "data": reference}], images=[image], note=large)
    )
    moved, outside = PI.moved_outside(record, slot("x"))
    assert outside == {f"blobs/{reference[12:]}": bytes(range(256)) * 4}
    assert moved == record.replace(large.encode(), reference.encode(), 1)
    nested = payload(result(text("x"), details={"results": [{"content": [image]}]}))
    assert PI.moved_outside(nested, slot("x"))[0] == nested.replace(large.encode(), reference.encode())
    for other in (payload(said("user", [{**image, "data": large[:1020]}])), b"damaged", payload(HEADER)):
        assert PI.moved_outside(other, slot("x")) == (other, {})
    assert small in moved.decode()
    # pi itself knows no such folder
    assert PI.moved_outside(record, payload(HEADER)) == (record, {})


@pytest.mark.parametrize("title", ["", "Fix the login", 'a "quoted" one', "ä" * 200, "😀" * 90, "\x01" * 100])
def test_the_title_has_a_place_of_one_size(title: str) -> None:
    line = title_slot(title, "2026-01-20T04:15:00.614Z")
    said = json.loads(line)["title"]
    assert len(line) == 256
    assert title.startswith(said)
    assert (said == title) == (len(title) < 50)
    assert said or not title
