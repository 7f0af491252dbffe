import gzip
import hashlib
import json
from pathlib import Path

import pytest

from store.errors import DamageError, NotFound
from store.formats.core import budget
from store.formats.core.format import About, Source, Titled
from store.formats.core.look import Look
from store.formats.jp import Jp, read_blob, referenced_blobs

JP = Jp()
EVENTS = [
    {"timestamp": "2026-03-05 23:16:39.25", "type": "turn_start"},
    {"timestamp": "2026-03-05 23:16:39.26", "type": "chat_request", "content": "Fix it\nplease"},
]


def conversation(folder: Path, events: object = EVENTS, metadata: dict[str, object] | None = None) -> Path:
    folder.mkdir(parents=True)
    content = events if isinstance(events, bytes) else json.dumps(events, indent=2).encode()
    (folder / "events.json").write_bytes(content)
    if metadata is not None:
        (folder / "metadata.json").write_text(json.dumps(metadata))
    return folder


def about(folder: Path) -> About:
    source = JP.claim(Look(folder))
    assert source
    data = source.main.read_bytes()
    return JP.about(source, [data[span.start : span.end] for span in JP.spans(memoryview(data), 0)])


def test_a_directory_is_a_conversation(tmp_path: Path) -> None:
    folder = conversation(tmp_path / "shop/.jp/conversations/17727523543-fix-it", metadata={"title": "Fix"})
    (folder / "base_config.json").write_text("{}")
    (folder / "QUERY_MESSAGE.md").write_text("draft")
    (folder / "link").symlink_to("/etc/passwd")
    expected = Source(
        "jp",
        folder,
        folder / "events.json",
        first=(str(folder / "base_config.json"),),
        sidecars=(("QUERY_MESSAGE.md", folder / "QUERY_MESSAGE.md"), ("metadata.json", folder / "metadata.json")),
    )
    assert JP.claim(Look(folder)) == expected
    assert JP.claim(Look(folder / "events.json")) == expected
    for other in (folder / "metadata.json", folder.parent, tmp_path / "none", folder / "link"):
        assert JP.claim(Look(other)) is None


@pytest.mark.parametrize("events", [b"", b"[]\n", b"[", b"\0\0", b'[{"type": "later"}]'])
def test_empty_and_damaged_ones_are_claimed_by_where_they_lie(tmp_path: Path, events: bytes) -> None:
    assert JP.claim(Look(conversation(tmp_path / ".jp/conversations/17727523543", events)))
    assert not JP.claim(Look(conversation(tmp_path / "conversations/notes", events)))
    assert not JP.claim(Look(conversation(tmp_path / "17727523543", events)))


def test_archived_conversations_belong_to_the_same_workspace(tmp_path: Path) -> None:
    assert about(conversation(tmp_path / "shop/.jp/conversations/.archive/17727523543")).project == "shop"


def test_copies_that_jp_is_writing_are_no_conversations(tmp_path: Path) -> None:
    for name in (".staging-17727523543-fix", ".old-17727523543-fix"):
        folder = conversation(tmp_path / ".jp/conversations" / name)
        assert not JP.claim(Look(folder))
        assert not JP.claim(Look(folder / "events.json"))


def test_events_are_known_anywhere(tmp_path: Path) -> None:
    assert JP.claim(Look(conversation(tmp_path / "copied")))
    assert not JP.claim(Look(conversation(tmp_path / "other", [{"type": "message"}])))
    assert not JP.claim(Look(conversation(tmp_path / "object", {"type": "chat_request"})))


def test_what_a_conversation_says_of_itself(tmp_path: Path) -> None:
    metadata = {"title": "Fix the login", "last_activated_at": "2026-03-05 23:12:34.3", "local": True, "name": "x"}
    folder = conversation(tmp_path / "shop/.jp/conversations/17727523543-fix", metadata=metadata)
    assert about(folder) == About(
        title="Fix the login",
        project="shop",
        started_ms=1772752354300,
        session_id="17727523543",
        extra={"last_activated_at": "2026-03-05 23:12:34.3"},
        titled=Titled.BY_TOOL,
    )


def test_what_it_says_without_metadata(tmp_path: Path) -> None:
    described = about(conversation(tmp_path / "copied"))
    assert (described.title, described.project, described.session_id) == ("Fix it", "", "copied")
    assert described.started_ms == 1772752599250
    empty = about(conversation(tmp_path / ".jp/conversations/17727523543-fix-the-login", b"[]"))
    assert empty.title == "fix the login"


def test_private_conversations_belong_to_their_workspace(tmp_path: Path) -> None:
    data = tmp_path / ".local/share/jp/workspace"
    assert about(conversation(data / "shop-otvo8/conversations/17727523543")).project == "shop"
    (data / "old-name-zzzzz").mkdir()
    (data / "old-name-zzzzz/storage").symlink_to("/home/ada/new-name/.jp")
    assert about(conversation(data / "old-name-zzzzz/conversations/17727523543")).project == "new-name"


def test_homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace, home, moved = tmp_path / "shop", tmp_path / "home", tmp_path / "data"
    (workspace / "src/deep").mkdir(parents=True)
    assert list(JP.homes(home, workspace)) == []
    for folder in (workspace / ".jp", home / ".local/share/jp/workspace/shop-otvo8", moved / "jp/workspace/shop-otvo8"):
        (folder / "conversations").mkdir(parents=True)
    shared, private = workspace / ".jp/conversations", home / ".local/share/jp/workspace/shop-otvo8/conversations"
    assert list(JP.homes(home, workspace / "src/deep")) == [shared, private]
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_DATA_HOME", str(moved))
    assert list(JP.homes(home, tmp_path)) == [moved / "jp/workspace/shop-otvo8/conversations"]


CONTENT = b"fn main() {}\n" * 50
DIGEST = hashlib.sha256(CONTENT).digest()
NAME = DIGEST.hex()


def payload(*names: str) -> bytes:
    return json.dumps([{"content": {"$blob": name, "size": 1}} for name in names]).encode()


@pytest.mark.parametrize("place", [f"{NAME[:2]}/{NAME[2:4]}/{NAME[4:]}", f"{NAME[:2]}/{NAME[2:4]}/{NAME}", NAME])
def test_blobs_are_found_and_verified(tmp_path: Path, place: str) -> None:
    folder = conversation(tmp_path / ".jp/conversations/17727523543")
    source = JP.claim(Look(folder))
    assert source
    file = tmp_path / ".jp/blobs" / f"{place}.blob.gz"
    file.parent.mkdir(parents=True)
    file.write_bytes(gzip.compress(CONTENT))
    found = list(JP.blobs(source, payload(NAME, NAME.upper(), "ab" * 32)))
    assert [(blob.algorithm, blob.digest) for blob in found] == [
        ("sha256", DIGEST),
        ("sha256", bytes.fromhex("ab" * 32)),
    ]
    assert found[0].read() == CONTENT
    with pytest.raises(NotFound):
        found[1].read()


@pytest.mark.parametrize(
    "file",
    [
        b"",
        b"not gzip",
        gzip.compress(CONTENT)[:-9],
        gzip.compress(b"other"),
        gzip.compress(CONTENT)[:20] + b"\xff" * 40,
    ],
    ids=["empty", "not gzip", "cut off", "other content", "destroyed"],
)
def test_damaged_blobs_are_told(tmp_path: Path, file: bytes) -> None:
    (tmp_path / f"{NAME}.blob.gz").write_bytes(file)
    with pytest.raises(DamageError, match=NAME):
        read_blob(tmp_path, DIGEST)


def test_a_blob_that_grows_without_bound_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "LEAST_BYTES", len(CONTENT) - 1)
    monkeypatch.setattr(budget, "RATIO", 1)
    (tmp_path / f"{NAME}.blob.gz").write_bytes(gzip.compress(CONTENT))
    with pytest.raises(DamageError, match="more than"):
        read_blob(tmp_path, DIGEST)


def test_text_that_only_looks_like_a_reference_is_none(tmp_path: Path) -> None:
    quoted = json.dumps({"content": json.dumps({"$blob": NAME})}).encode()
    assert list(referenced_blobs(tmp_path, quoted)) == []
    assert list(referenced_blobs(tmp_path, payload("short"))) == []
