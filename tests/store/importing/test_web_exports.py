"""Exports of ChatGPT and claude.ai in and out again: conversations, branches, files, and edits of any of them."""

import json
import zipfile
from pathlib import Path

from store.conversations.contexts import Append
from store.editing.editor import DELETED, Editor
from store.events.conversation import Conversation
from store.events.event import BlockEdit, Event, EventEdit, Kind
from store.formats.registry import lens_for
from store.importing.importer import Importer
from store.store import Store
from tests.store.formats.earlier import Earlier
from tests.store.formats.exports import PNG, archive, asked, dumped, message, said, talk, tree
from tests.store.importing.sessions import exported, imported


def brought(store: Store, path: Path, content: bytes) -> dict[str, Conversation]:
    """Import a file and return its conversations, by key."""
    path.write_bytes(content)
    imported(store, path)
    return found(store)


def found(store: Store) -> dict[str, Conversation]:
    return {str(one.metadata["part"]): one for one in store.library.conversations() if "part" in one.metadata}


def events(store: Store, conversation: Conversation) -> list[tuple[Kind, str]]:
    rows = store.records.rows(store.library.conversation(conversation.id).head)
    seen = [event for _row, event in store.viewer.events(rows) if isinstance(event, Event)]
    return [(event.kind, event.blocks[0].text or "") for event in seen if event.kind is not Kind.RECORD]


def file(store: Store, conversation: Conversation) -> bytes:
    """Return the file of conversations that a conversation is exported as."""
    with exported(store, store.library.conversation(conversation.id)) as files:
        return next(content for name, content in files.items() if name.endswith("conversations.json"))


def edited(store: Store, conversation: Conversation, number: int, text: str) -> None:
    """Give the only text of an event another."""
    head = store.library.conversation(conversation.id).head
    row = store.records.rows(head)[number - 1]
    payload = store.contents.payload(row.turn)
    lens = lens_for(store.viewer.lens(store.turns.get(row.turn)).type_name)
    (block,) = lens.view(payload, Earlier()).blocks
    edit = EventEdit((BlockEdit(block.path, text, block.name, "text", block.encoding),))
    Editor(store).edit(conversation.id, {number: lens.edit(payload, edit, Earlier())})


def test_a_tree_is_a_conversation_and_its_branches(store: Store, tmp_path: Path) -> None:
    data = dumped(asked("c1"), tree("c2", said("x", "root", "user", "Hi"), title="Other"))
    talks = brought(store, tmp_path / "conversations.json", data)
    assert talks.keys() == {"c1", "c1/u3", "c1/a2", "c2"}
    assert [text for _kind, text in events(store, talks["c1"])] == [
        "Why is the sky blue?",
        "Because of <b>Rayleigh</b>.",
        "And at dusk?",
        "Red, the way is longer.",
    ]
    assert [text for _kind, text in events(store, talks["c1/a2"])] == ["Why is the sky blue?", "It scatters light."]
    assert talks["c1/a2"].metadata["forked_from"]
    turns = {key: [row.turn for row in store.records.rows(one.head)] for key, one in talks.items()}
    assert turns["c1/a2"][:2] == turns["c1"][:2]
    assert turns["c1/u3"][:1] == turns["c1"][:1]
    assert [file(store, one) for one in talks.values()] == [data] * 4


def test_an_edit_in_any_branch_is_exported_as_just_that(store: Store, tmp_path: Path) -> None:
    data = json.dumps([asked("c1"), asked("c2")], indent=1).encode()
    talks = brought(store, tmp_path / "conversations.json", data)
    edited(store, talks["c1/a2"], 3, "It scatters <light>\n& more.")
    expected = data.replace(b'"It scatters light."', b'"It scatters <light>\\n& more."', 1)
    assert file(store, talks["c1/a2"]) == expected
    assert file(store, talks["c2"]) == expected
    edited(store, talks["c2"], 5, "Red.")
    head, tail = expected.split(b'"c2"', 1)[0], expected[len(expected.split(b'"c2"', 1)[0]) :]
    assert file(store, talks["c2"]).count(b'"Red."') == 1
    assert len(file(store, talks["c2"])) == len(head + tail) - len("Red, the way is longer.") + len("Red.")


def test_what_is_deleted_and_added_leaves_a_tree(store: Store, tmp_path: Path) -> None:
    for number, layout in enumerate(({}, {"indent": 2}, {"separators": (",", ":")})):
        folder = tmp_path / str(number)
        folder.mkdir()
        conversations = [tree(f"b{number}", said("x", "root", "user", "Hi")), asked(f"c{number}")]
        data = json.dumps(conversations, **layout).encode()  # type: ignore[call-overload]
        talks = brought(store, folder / "conversations.json", data)
        main = talks[f"c{number}"]
        previous = store.contents.payload(store.records.rows(main.head)[-1].turn)
        lens = lens_for("chatgpt.node.v1")
        added = lens.compose(Kind.USER, "And at night?", previous, 1_800_000_000_000)
        Editor(store).append(main.id, [Append(added, "chatgpt.node.v1")])
        Editor(store).edit(main.id, {2: DELETED})

        now = json.loads(file(store, main))
        assert now[0] == conversations[0]
        mapping = now[1]["mapping"]
        assert all(key == node["id"] for key, node in mapping.items())
        new = json.loads(added)["id"]
        assert {key: (node["parent"], node["children"]) for key, node in mapping.items()} == {
            "root": (None, ["a1", "a2", "u3"]),
            "a1": ("root", ["u2"]),
            "a2": ("root", []),
            "u2": ("a1", ["a3"]),
            "u3": ("root", []),
            "a3": ("u2", [new]),
            new: ("a3", []),
        }
        assert mapping["u2"]["message"] == asked("x")["mapping"]["u2"]["message"]  # type: ignore[index]
        assert now[1] == conversations[1] | {"mapping": mapping, "current_node": new}


def test_a_conversation_names_its_last_message_as_it_is_now(store: Store, tmp_path: Path) -> None:
    first = {"current_node": "y", **tree("c1", said("x", "root", "user", "Hi"), said("y", "x", "assistant", "Ho"))}
    data = dumped(first, asked("c2"), tree("c3", said("x", "root", "user", "Hi"), said("y", "x", "assistant", "Ho")))
    talks = brought(store, tmp_path / "conversations.json", data)

    def current(conversation: Conversation) -> list[object]:
        return [one["current_node"] for one in json.loads(file(store, conversation))]

    Editor(store).edit(talks["c1"].id, {3: DELETED})
    assert current(talks["c1"]) == ["x", "a3", "y"]
    # other branches, and texts, are nothing that it names
    Editor(store).edit(talks["c2/a2"].id, {3: DELETED})
    assert current(talks["c2"]) == ["x", "a3", "y"]
    Editor(store).edit(talks["c2"].id, {5: DELETED, 4: DELETED})
    Editor(store).edit(talks["c3"].id, {2: DELETED, 3: DELETED})
    assert current(talks["c1"]) == ["x", "a1", "root"]


def test_the_first_message_of_a_file_may_go_and_all_of_them(store: Store, tmp_path: Path) -> None:
    data = dumped(tree("c1", said("x", "root", "user", "Hi"), said("y", "x", "assistant", "Ho")), asked("c2"))
    talks = brought(store, tmp_path / "conversations.json", data)
    Editor(store).edit(talks["c1"].id, {1: DELETED})
    assert list(json.loads(file(store, talks["c1"]))[0]["mapping"]) == ["x", "y"]
    Editor(store).edit(talks["c1"].id, {2: DELETED, 3: DELETED})
    now = json.loads(file(store, talks["c1"]))
    assert (now[0]["mapping"], now[0]["title"], now[1]) == ({}, "A talk", asked("c2"))


def test_a_later_export_brings_only_what_is_new(store: Store, tmp_path: Path) -> None:
    first = asked("c1")
    talks = brought(store, tmp_path / "conversations.json", dumped(first, asked("c2")))
    later = asked("c1")
    mapping = later["mapping"]
    assert isinstance(mapping, dict)
    mapping["a3"]["children"] = ["u4"]
    mapping["u4"] = said("u4", "a3", "user", "And at night?")
    later["current_node"] = "u4"
    folder = tmp_path / "later"
    folder.mkdir()
    report_of = folder / "conversations.json"
    report_of.write_bytes(dumped(later, asked("c2")))
    report = imported(store, report_of)
    assert (report.imported, report.grown, report.records) == (0, 1, 2)
    now = found(store)
    assert {key: one.id for key, one in now.items()} == {key: one.id for key, one in talks.items()}
    assert events(store, now["c1"])[-1] == (Kind.USER, "And at night?")
    assert file(store, now["c1"]) == report_of.read_bytes()


def test_files_beside_the_conversations_are_shown_and_exported(store: Store, tmp_path: Path) -> None:
    part = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-AbC"}
    node = said("u", "root", "user", {"content_type": "multimodal_text", "parts": [part, "What is it?"]})
    (tmp_path / "file-AbC-fox.png").write_bytes(PNG)
    (tmp_path / "user.json").write_bytes(b'{"id": "user-1"}')
    (tmp_path / "conversations.json").write_bytes(dumped(tree("c1", node)))
    imported(store, tmp_path)
    (conversation,) = found(store).values()
    (resource,) = store.records.resources(conversation.head)
    assert (resource.uri, resource.mime, resource.size) == ("attachment:file-AbC/image.png", "image/png", len(PNG))
    with exported(store, conversation) as files:
        assert files == {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    assert imported(store, tmp_path).unchanged


def test_claude_ai_in_and_out(store: Store, tmp_path: Path) -> None:
    root = "00000000-0000-4000-8000-000000000000"
    forked = (
        message("m1", "human", "Why?", parent=root),
        message("m2", "assistant", "So.", parent="m1"),
        message("m3", "assistant", "Thus.", parent="m1", created_at="2025-03-06T00:00:00Z"),
    )
    linear = (message("n1", "human", "Hi"), message("n2", "assistant", "Ho"), message("n3", "human", "Hm"))
    data = json.dumps([talk("c0"), talk("c1", *forked), talk("c2", *linear)], indent=2).encode()
    talks = brought(store, tmp_path / "conversations.json", data)
    assert talks.keys() == {"c1", "c1/m2", "c2"}
    assert [text for _kind, text in events(store, talks["c1"])] == ["Why?", "Thus."]
    assert [file(store, one) for one in talks.values()] == [data] * 3

    edited(store, talks["c1/m2"], 2, "Changed.")
    assert file(store, talks["c1/m2"]) == data.replace(b'"So."', b'"Changed."')
    lens = lens_for("claude-ai.message.v1")
    added = lens.compose(
        Kind.USER, "More", store.contents.payload(store.records.rows(talks["c2"].head)[-1].turn), 1_800_000_000_000
    )
    Editor(store).append(talks["c2"].id, [Append(added, "claude-ai.message.v1")])
    Editor(store).edit(talks["c2"].id, {1: DELETED})
    now = json.loads(file(store, talks["c2"]))
    assert [one["uuid"] for one in now[2]["chat_messages"]] == ["n2", "n3", json.loads(added)["uuid"]]
    assert now[0] == talk("c0")


def test_an_archive_is_kept_whole_and_written_anew_where_it_was_edited(store: Store, tmp_path: Path) -> None:
    part = {"content_type": "image_asset_pointer", "asset_pointer": "sediment://file_1"}
    node = said("u", "root", "user", {"content_type": "multimodal_text", "parts": [part, "What is it?"]})
    members = {
        "chat.html": b"<html></html>",
        "conversations-000.json": dumped(asked("c1")),
        "conversations-001.json": dumped(tree("c2", node)),
        "user-1/file_1-99.png": PNG,
    }
    path = archive(tmp_path / "export.zip", members)
    imported(store, path)
    talks = found(store)
    assert talks.keys() == {"c1", "c1/u3", "c1/a2", "c2"}
    (resource,) = store.records.resources(talks["c2"].head)
    assert resource.size == len(PNG)
    with exported(store, talks["c1"]) as files:
        assert files == {"export.zip": path.read_bytes()}

    edited(store, talks["c1/a2"], 3, "Changed.")
    with exported(store, store.library.conversation(talks["c1/a2"].id)) as files:
        (tmp_path / "new.zip").write_bytes(files["export.zip"])
    with zipfile.ZipFile(tmp_path / "new.zip") as new:
        assert {name: new.read(name) for name in new.namelist()} == members | {
            "conversations-000.json": members["conversations-000.json"].replace(b"It scatters light.", b"Changed.")
        }
    assert imported(store, path).imported == 0
    Editor(store).restore(talks["c1/a2"].id, 1)
    with exported(store, store.library.conversation(talks["c1/a2"].id)) as files:
        assert files == {"export.zip": path.read_bytes()}


def test_a_damaged_archive_is_told_and_stops_nothing(store: Store, tmp_path: Path) -> None:
    path = archive(
        tmp_path / "export.zip", {"conversations.json": dumped(asked("c1")), "x.bin": bytes(range(256)) * 99}
    )
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "conversations.json").write_bytes(dumped(asked("c2")))
    report = Importer(store).run([tmp_path])
    assert report.imported == 3
    at = whole.index(b"conversations.json") + 400
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
    report = Importer(store).run([path])
    assert len(report.errors) == 1
    assert report.imported == 0
