import json
from pathlib import Path

import pytest

from store.errors import NotFound, UsageError
from store.formats.chatgpt import ChatGpt
from store.formats.core.format import Part, Source
from store.formats.core.look import Look
from tests.store.formats.exports import PNG, WAV, archive, asked, dumped, said, tree

CHATGPT = ChatGpt()


def written(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def claimed(path: Path) -> Source | None:
    return CHATGPT.claim(Look(path))


def parts_of(data: bytes) -> tuple[list[bytes], list[Part]]:
    view = memoryview(data)
    spans = list(CHATGPT.spans(view, 0))
    source = Source("chatgpt", Path("x"), Path("x"))
    return [data[span.start : span.end] for span in spans], list(CHATGPT.parts(source, view, spans))


def ids(data: bytes) -> list[tuple[str, list[str], int, int]]:
    """Return each part: its key, the ids of its own nodes, its base, how many it shares."""
    records, parts = parts_of(data)
    return [
        (part.key, [json.loads(records[at])["id"] for at in part.records], part.base, part.shared) for part in parts
    ]


def test_files_are_told_by_how_they_begin(tmp_path: Path) -> None:
    for name, content in (
        ("conversations.json", dumped(asked("c1"))),
        ("anything", json.dumps(asked("c1"), indent=2).encode()),
        ("bom.json", b"\xef\xbb\xbf" + dumped(asked("c1"))),
        ("cut.json", dumped(asked("c1"))[:300]),
        ("long.json", dumped(asked("c1", title="t" * 70_000))[: 64 << 10]),
        ("lines.jsonl", json.dumps(asked("c1")).encode() + b"\n"),
    ):
        source = claimed(written(tmp_path / name, content))
        assert (source is not None) == (name != "long.json"), name
    for name, content in (
        ("empty.json", b""),
        ("list.json", b"[]"),
        ("other.json", b'{"title": "x", "create_time": 3, "items": []}'),
        ("keys.json", b'{"mapping": {"a": "b"}}'),
        ("told.json", b'{"text": "\\"mapping\\": {\\"x\\": {\\"id\\": 1}}"}'),
        ("claude.json", b'[{"uuid": "a", "name": "b", "chat_messages": [{}]}]'),
        ("notes.md", dumped(asked("c1")).replace(b"[", b"# Notes\n[", 1)),
    ):
        assert claimed(written(tmp_path / name, content)) is None, name
    assert claimed(tmp_path) is None


def test_what_was_seen_last_is_the_conversation_and_the_rest_branches_off() -> None:
    assert ids(dumped(asked("c1"), tree("c2", said("x", "root", "user", "Hi")))) == [
        ("c1", ["root", "u1", "a1", "u2", "a3"], -1, 0),
        ("c1/u3", ["u3"], 0, 1),
        ("c1/a2", ["a2"], 0, 2),
        ("c2", ["root", "x"], -1, 0),
    ]
    assert ids(dumped(tree("c0", said("x", "root", "user", "Hi")), asked("c1", current="a2")))[1:] == [
        ("c1", ["root", "u1", "a2"], -1, 0),
        ("c1/u3", ["u3"], 1, 1),
        ("c1/a1", ["a1", "u2", "a3"], 1, 2),
    ]


def test_a_branch_keeps_its_key_when_another_is_the_conversation() -> None:
    keys = {key for key, *_rest in ids(dumped(asked("c1")))}
    assert keys & {key for key, *_rest in ids(dumped(asked("c1", current="a2")))} == {"c1", "c1/u3"}


def test_what_conversations_say_of_themselves() -> None:
    about = parts_of(dumped(asked("c1", title="# Why is\nit so")))[1]
    assert [part.about.title for part in about] == ["Why is"] * 3
    assert {part.about.project for part in about} == {"chatgpt"}
    assert [part.about.started_ms for part in about] == [1_700_000_000_250, 1_700_000_300_000, 1_700_000_100_000]
    assert [part.about.session_id for part in about] == ["c1", "c1/u3", "c1/a2"]
    assert about[0].about.extra == {"model": "gpt-5"}


def test_damaged_conversations_keep_what_can_be_read() -> None:
    data = dumped(asked("c1"), asked("c2"))
    unreadable = data.replace(b"1700000000.25", b"EPOCH.MILLIS").replace(b"1700000000.5", b"EPOCH.MILLIS")
    for damaged in (unreadable, *(data[:end] for end in range(400, len(data), 211))):
        records, parts = parts_of(damaged)
        assert sorted(at for part in parts for at in part.records) == list(range(len(records)))
        assert parts[0].key not in ("", "root")
        assert parts[0].about.title == "A talk"


UUID = "c1895900-6a9f-4f43-a908-5b9c5e500446"


def test_conversations_whose_ids_are_lost_are_not_taken_for_each_other() -> None:
    whole = (dumped(tree("c1", said(name, "root", "user", name))) for name in ("u1", "u2"))
    cut = [data[: data.index(b'"moderation')] for data in whole]
    assert [parts_of(data)[1][0].key for data in cut] == ["u1", "u2"]
    (root,), (again,) = (parts_of(b'[{"mapping": {"a": {"id": "a", "n": %d}}}]' % n)[1] for n in (1, 2))
    assert root.key != again.key


def folder(root: Path) -> Path:
    """Make the folder of an export and return its file of conversations."""
    parts = [
        {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-AbC"},
        {"content_type": "image_asset_pointer", "asset_pointer": "sediment://file_7f"},
        {"content_type": "audio_asset_pointer", "asset_pointer": "sediment://file_9a"},
        {"content_type": "image_asset_pointer", "asset_pointer": "sediment://file_gone"},
        {"content_type": "image_asset_pointer", "asset_pointer": f"file-service://{UUID}"},
    ]
    attached = {"attachments": [{"id": "file-Doc", "name": "a.md"}, {"id": "file-AbC", "name": "p.png"}, {"id": 3}]}
    node = said("u", "root", "user", {"content_type": "multimodal_text", "parts": parts}, metadata=attached)
    for name, content in (
        ("file-AbC-my photo.png", PNG),
        ("user-xY1/file_7f-1234-5678.png", PNG + b"2"),
        ("0a1b2c3d-0000-4000-8000-000000000000/audio/file_9a-99.wav", WAV),
        ("file-Doc.dat", b"# Notes"),
        (f"{UUID}.png", PNG + b"3"),
        ("user.json", b"{}"),
        ("chat.html", b"<html>"),
        ("mine/conversations.txt", b"not of the export"),
        ("taxes.pdf", b"%PDF"),
    ):
        written(root / name, content)
    return written(root / "conversations.json", dumped(tree("c1", node)))


FILES = {"file-AbC": PNG, "file_7f": PNG + b"2", "file_9a": WAV, UUID: PNG + b"3", "file-Doc": b"# Notes"}


def found_files(source: Source, record: bytes) -> dict[str, bytes]:
    found = {}
    for blob in CHATGPT.blobs(source, record):
        assert blob.algorithm == "chatgpt-file"
        try:
            found[blob.digest.decode()] = blob.read()
        except NotFound:
            assert blob.digest == b"file_gone"
    return found


def test_files_that_messages_name_are_found_beside_the_conversations(tmp_path: Path) -> None:
    path = folder(tmp_path)
    source = claimed(path)
    assert source is not None
    assert [name for name, _path in source.sidecars] == [
        "0a1b2c3d-0000-4000-8000-000000000000/audio/file_9a-99.wav",
        f"{UUID}.png",
        "file-AbC-my photo.png",
        "file-Doc.dat",
        "user-xY1/file_7f-1234-5678.png",
        "user.json",
    ]
    assert all(beside == tmp_path / name for name, beside in source.sidecars)
    records, _parts = parts_of(path.read_bytes())
    assert found_files(source, records[1]) == FILES
    assert list(CHATGPT.blobs(source, records[0])) == []


def test_shards_are_files_of_conversations_of_which_the_first_has_the_others_beside_it(tmp_path: Path) -> None:
    folder(tmp_path).unlink()
    first = claimed(written(tmp_path / "conversations-000.json", dumped(asked("c1"))))
    second = claimed(written(tmp_path / "conversations-001.json", dumped(asked("c2"))))
    assert first is not None
    assert second is not None
    assert len(first.sidecars) == 6
    assert second.sidecars == ()


def test_archives_hold_conversations_in_one_file_or_several(tmp_path: Path) -> None:
    path = folder(tmp_path / "unpacked")
    members = {
        str(file.relative_to(path.parent)): file.read_bytes() for file in path.parent.rglob("*") if file.is_file()
    }
    source = claimed(archive(tmp_path / "export.zip", members))
    assert source is not None
    assert (source.main, source.sidecars) == (tmp_path / "export.zip", ())
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    rendition = CHATGPT.rendition(source, scratch)
    assert rendition is not None
    assert rendition.read_bytes() == members["conversations.json"]
    assert CHATGPT.rendition(Source("chatgpt", path, path), scratch) is None
    records, _parts = parts_of(rendition.read_bytes())
    assert found_files(source, records[1]) == FILES

    shards = {"deep/conversations-001.json": dumped(asked("c2")), "deep/conversations-000.json": dumped(asked("c1"))}
    source = claimed(archive(tmp_path / "shards.zip", shards | {"conversations.txt": b"?"}))
    assert source is not None
    rendition = CHATGPT.rendition(source, scratch)
    assert rendition is not None
    assert [key for key, *_rest in ids(rendition.read_bytes())] == ["c1", "c1/u3", "c1/a2", "c2", "c2/u3", "c2/a2"]
    rendition.write_bytes(rendition.read_bytes().replace(b"scatters", b"SCATTERS"))
    CHATGPT.restore(source.path, rendition, tmp_path / "new.zip")
    again = claimed(tmp_path / "new.zip")
    assert again is not None
    changed = CHATGPT.rendition(again, scratch)
    assert changed is not None
    assert changed.read_bytes().count(b"SCATTERS") == 2


def test_archives_of_others_and_damaged_ones_are_left_alone(tmp_path: Path) -> None:
    assert claimed(archive(tmp_path / "a.zip", {"conversations.json": b"[]", "x": b"y"})) is None
    assert claimed(archive(tmp_path / "b.zip", {"notes.json": dumped(asked("c1"))})) is None
    whole = archive(tmp_path / "c.zip", {"conversations.json": dumped(asked("c1"))}).read_bytes()
    assert claimed(written(tmp_path / "d.zip", whole[:-30])) is None
    source = Source("chatgpt", tmp_path / "d.zip", tmp_path / "d.zip")
    with pytest.raises(UsageError, match="unpack"):
        CHATGPT.rendition(source, tmp_path)


def linked(records: list[bytes]) -> dict[str, tuple[str | None, list[str]]]:
    nodes = [json.loads(record) for record in records]
    return {node["id"]: (node["parent"], node["children"]) for node in nodes}


def test_what_is_left_of_a_tree_is_one() -> None:
    records, _parts = parts_of(dumped(asked("c1")))
    assert CHATGPT.without(records, frozenset()) == records
    left = CHATGPT.without(records, {1, 2})
    assert linked(left) == {
        "root": (None, ["u2", "a2", "u3"]),
        "a2": ("root", []),
        "u2": ("root", ["a3"]),
        "u3": ("root", []),
        "a3": ("u2", []),
    }
    untouched = {json.loads(record)["id"]: record for record in records}
    assert untouched["a3"] in left
    assert CHATGPT.without(records, set(range(7))) == []
    damaged = [records[0], b'{"id": "u1", "mess', *records[2:]]
    assert CHATGPT.without(damaged, {2})[1] == damaged[1]


def test_what_was_added_is_named_by_what_it_follows() -> None:
    records, _parts = parts_of(dumped(asked("c1")))
    more = json.dumps(said("new", "a3", "user", "And at night?")).encode()
    now = CHATGPT.without([*records, more], frozenset())
    assert linked(now)["a3"] == ("u2", ["new"])
    assert [record for record in now if record not in records] == [now[-2], more]
    bare = [record.replace(b', "children": []', b"") for record in records]
    assert CHATGPT.without([*bare, more], frozenset())[-2] == bare[-1]


def test_a_call_and_its_results_go_together() -> None:
    talk = tree(
        "c1",
        said("u", "root", "user", "Go"),
        said("c", "u", "assistant", "x", recipient="python"),
        said("t1", "c", "tool", "1", name="python"),
        said("t2", "t1", "tool", "2", name="python"),
        said("a", "t2", "assistant", "Done", metadata={"parent_id": "t2"}),
    )
    records, _parts = parts_of(dumped(talk))
    assert linked(CHATGPT.without(records, {2})) == {"root": (None, ["u"]), "u": ("root", ["a"]), "a": ("u", [])}
    assert linked(CHATGPT.without(records, {3, 4})) == linked(CHATGPT.without(records, {2}))
    assert list(linked(CHATGPT.without(records, {4}))) == ["root", "u", "c", "t1", "a"]
    last = json.loads(CHATGPT.without(records, {2})[-1])
    assert last["message"]["metadata"]["parent_id"] == "u"
