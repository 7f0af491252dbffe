"""A line of a long tool result, edited in the mount: what that adds to the store."""

import json
from pathlib import Path

from store.upkeep.fsck import fsck
from tests.fusefs.tree.mounting import add, keep_each_save, mounted, new_store, stamp, until, user
from tests.store.content.noise import EDIT, edited, noise

NAME = "2026-03-05-talk"
MIB = 1 << 20
LIMIT = 64 << 10


def result(text: bytes) -> str:
    """Return a line of a session with what a tool returned: once for the model, once for programs."""
    content = [{"type": "tool_result", "tool_use_id": "c1", "content": text.decode()}]
    line = {"type": "user", "message": {"role": "user", "content": content}, "uuid": "r2", "timestamp": stamp(2)}
    return json.dumps({**line, "toolUseResult": {"stdout": text.decode(), "stderr": "", "interrupted": False}})


def begin(store_path: Path) -> int:
    """Make a store with such a line; return how much it takes."""
    with new_store(store_path) as store:
        context = add(store, [user("Show me", 1), result(noise(MIB)), user("Thanks", 3)])
        list(store.records.rows(store.writer.head(context).turn))
    return taken(store_path)


def taken(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


def packed(root: Path) -> int:
    return sum(path.stat().st_size for path in (root / "blobs").iterdir())


def test_a_line_edited_by_sed(store_path: Path) -> None:
    before = begin(store_path)
    assert before > MIB // 2
    keep_each_save(store_path)
    line = noise(MIB).split(b"\n")[5000].decode()
    with mounted(store_path) as mount:
        events = mount.root / "conversations" / "project" / NAME / "events"
        packs = packed(store_path)
        [name] = [path.name for path in events.iterdir() if "result" in path.name]
        mount.shell(f"cd '{events}'; sed -i 's/^{line}$/{EDIT.decode()}/' {name}")
        assert EDIT in (events / name).read_bytes()
        versions = events.parent / ".versions"
        until(lambda: len(list(versions.iterdir())) == 2)
        for number in range(5):
            (events / name).write_bytes((events / name).read_bytes().replace(EDIT, EDIT + b" %d" % number, 1))
            until(lambda number=number: len(list(versions.iterdir())) == 3 + number)
        # while the daemon runs, too, once it has packed what it has journalled
        assert packed(store_path) - packs < LIMIT
    assert taken(store_path) - before < LIMIT
    with new_store(store_path) as store:
        [conversation] = store.library.conversations()
        payload = store.contents.payload(store.records.rows(conversation.head)[1].turn)
        expected = noise(MIB).replace(line.encode(), EDIT + b" 4 3 2 1 0").decode()
        seen = json.loads(payload)
        assert seen["message"]["content"][0]["content"] == seen["toolUseResult"]["stdout"] == expected
        assert fsck(store) == []


def test_a_text_given_in_events_json(store_path: Path) -> None:
    before = begin(store_path)
    text = edited(noise(MIB), 0.0, 0.3, 1.0).decode()
    with mounted(store_path) as mount:
        conversation = mount.root / "conversations" / "project" / NAME
        whole = conversation / "events.json"
        elements = json.loads(whole.read_bytes())
        elements[1]["message"]["content"][0]["content"] = {"text": text}
        elements[1]["message"]["content"][0]["is_error"] = True
        whole.write_text(json.dumps(elements, indent=2))
        until(lambda: len(list((conversation / ".versions").iterdir())) == 2)
        record = json.loads((conversation / ".records" / "00002.json").read_bytes())
        assert record["message"]["content"][0]["content"] == text
    assert taken(store_path) - before < LIMIT
    with new_store(store_path) as store:
        assert fsck(store) == []
