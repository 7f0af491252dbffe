"""A store with a little of everything in it, and every question that one can ask of it."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from fusefs.text.render import FileRenderer
from store.commit.open_texts import OpenText
from store.disk.turn_format import Encoding
from store.editing.editor import DELETED, Editor
from store.errors import ConvfsError, DamageError
from store.ids import hash_bytes, tip_of
from store.importing.importer import Importer
from store.retention.removal import delete, prune_versions
from store.store import Append, Store
from store.upkeep.reclaiming import Reclaiming, Since
from tests.content.noise import edited, noise
from tests.importing.sessions import lines, session

ROOT = hash_bytes(b"a tree of files")

Answers = dict[str, object]
Question = Callable[[], object]


def fill(root: Path, folder: Path) -> None:
    """Make a store at ``root`` and close it."""
    with Store.open(root, renderer=FileRenderer()) as store:
        path = session(folder, lines("Please fix the login bug.", "I will. " * 300, "Thank you.", "One thing " * 99))
        Importer(store).run([path])
        put = store.put_blob(bytes(range(256)) * 40)
        store.put_blob(b"text in a blob of its own, " * 60)
        first = store.create_context(metadata={"project": "shop", "name": "first", "title": "A first one"}).context
        for number in range(6):
            store.append(first, b'{"type":"user","number":%d,"text":"%s"}' % (number, b"word " * 300), "jp.event.v1")
        store.flush()
        store.append_many(first, [Append(b"line %d" % number, "plain.text") for number in range(5)])
        base = store.last(first, 4)[0].turn_id
        second = store.fork(first, base, metadata={"project": "shop", "name": "second"}).context
        store.append(second, b'{"type":"user","text":"another way"}', "jp.event.v1")
        store.append(second, bytes(3000), "raw.bytes")
        store.set_metadata(second, {"blob": put.hex(), "labels": ["a", "b"]})
        Importer(store).run([session(folder, path.read_bytes() + lines("And another.", start=4))])
        third = store.create_context(metadata={"project": "shop", "name": "third"}).context
        text = noise(20_000)
        store.append(third, b'{"type":"user","text":"%s"}' % text.replace(b"\n", b"\\n"), "jp.event.v1")
        for place in (0.2, 0.9):
            text = edited(text, place)
            store.flush()
            Editor(store).edit(third, {1: b'{"type":"user","text":"%s"}' % text.replace(b"\n", b"\\n")})
        store.settings = msgspec.structs.replace(store.settings, edits="overlay")
        patched = b'{"type":"user","number":2,"text":"corrected, %s"}' % (b"word " * 300)
        Editor(store).edit(first, {3: patched})
        fourth = Editor(store).fork(first, "fourth", at=5).context
        Editor(store).edit(fourth, {2: DELETED, 3: b'{"type":"user","number":3,"text":"and once more"}'})
        Editor(store).edit(first, {1: DELETED})
        Editor(store).restore(first, 2)
        served = store.create_context().context
        keyed = store.append(served, b"from a client", "com.example.thing", idempotency_key=b"key", fs_root=ROOT)
        store.append(served, b"\x81\xa1a\x01", "com.example.thing", encoding=Encoding.MSGPACK, type_version=2)
        store.attach_fs(keyed.turn_id - 1, hash_bytes(b"another tree"))
        store.register_type("com.example.thing", 2)
        store.patch(served, {keyed.turn_id: b"corrected"})
        for _ in range(2):
            turn = store.open_turn(served, "com.example.text")
            turn.add(b"piece by ")
            turn.add(b"piece")
        turn.seal()
        gone = store.create_context(metadata={"project": "shop", "name": "gone", "source": "/gone"}).context
        turns = store.append_many(gone, [Append(b"line %d" % number, "plain.text") for number in range(9, 12)])
        delete(store, gone, store.tip(gone))
        prune_versions(store, third, store.versions(third)[0].seq)
        store.flush()
        since = Since(store.files.heads.length, store.files.turns.count)
        Reclaiming(store._writer, [(turns[0].turn_id, len(turns))], since).run()
        ask(store)


def questions(store: Store) -> dict[str, Question]:
    """Return everything that can be asked, by a name for it; turns and contexts are those that :func:`fill` made."""
    asked: dict[str, Question] = {}
    for context in (1, 2, 3, 4):
        asked[f"head {context}"] = lambda context=context: store.head(context)
        asked[f"last {context}"] = lambda context=context: store.last(context, 100)
        asked[f"range {context}"] = lambda context=context: store.range_by_depth(context, 2, 3)
        asked[f"conversation {context}"] = lambda context=context: store.conversation(context)
        asked[f"versions {context}"] = lambda context=context: store.versions(context)
    for context in (2, 5):
        asked[f"tip {context}"] = lambda context=context: store.tip(context)
        asked[f"now {context}"] = lambda context=context: store.path_to_root(store.tip(context))
        asked[f"rows of {context}"] = lambda context=context: list(store.rows(store.tip(context)))
        for seq in range(5, 90, 9):
            asked[f"tip {context} at {seq}"] = lambda context=context, seq=seq: store.tip(context, seq)
    for patch in (1, 2, 3):
        asked[f"patch {patch}"] = lambda patch=patch: store.path_to_root(tip_of(10, patch))
        asked[f"patched by {patch}"] = lambda patch=patch: payloads_of(store, tip_of(10, patch))
    asked["served"] = lambda: store.last(6, 9)
    asked["served, the latest"] = lambda: store.last(6, 9, latest=True)
    asked["open turns"] = lambda: whole(store.open_turns())
    asked["types"] = store.types
    for turn in range(1, 25):
        asked[f"root {turn}"] = lambda turn=turn: store.fs_root(turn)
    asked["key"] = lambda: store._writer.keys.get(6, b"key")
    for name in ("first", "second", "third", "fourth"):
        asked[f"find {name}"] = lambda name=name: store.find("shop", name)
    for turn in range(1, 22):
        asked[f"turn {turn}"] = lambda turn=turn: store.turn(turn)
        asked[f"payload {turn}"] = lambda turn=turn: store.payload(turn)
        asked[f"path {turn}"] = lambda turn=turn: store.path_to_root(turn)
        asked[f"type {turn}"] = lambda turn=turn: store.type_name(store.turn(turn).type_tag)
        asked[f"rows {turn}"] = lambda turn=turn: list(store.rows(turn))
        asked[f"events {turn}"] = lambda turn=turn: [sound(event) for _row, event in store.events(store.rows(turn))]
        asked[f"resources {turn}"] = lambda turn=turn: [(row, store.resource(row)) for row in store.resources(turn)]
    for data in (bytes(range(256)) * 40, b"text in a blob of its own, " * 60):
        name = hash_bytes(data)
        asked[f"blob {name.hex()}"] = lambda name=name: store.blob(name)
        asked[f"size {name.hex()}"] = lambda name=name: store.blob_size(name)
        asked[f"pieces {name.hex()}"] = lambda name=name: b"".join(store.blob_pieces(name))
    asked["pruned"] = lambda: store.pruned("source", "/gone")
    asked["projects"] = store.projects
    asked["conversations"] = store.conversations
    asked["conversations of a project"] = lambda: store.conversations("shop")
    asked["count"] = store.conversation_count
    asked["days"] = lambda: [store.by_day(day) for day in store.days("2026-03")]
    asked["labels"] = lambda: [(label, store.labelled(label)) for label in store.labels()]
    asked["recent"] = lambda: store.recent(2)
    return asked


def payloads_of(store: Store, tip: int) -> list[bytes]:
    return [store.payload(turn.turn_id) for turn in store.path_to_root(tip)]


def whole(texts: list[OpenText]) -> list[OpenText]:
    if any(text.damaged for text in texts):
        raise DamageError("something of an open turn may be lost")
    return texts


def sound(value: object) -> object:
    if isinstance(value, ConvfsError):
        raise value
    return value


def ask(store: Store) -> Answers:
    """Ask everything. An answer that is a ConvfsError is left out; any other exception is the test's to see."""
    answers: Answers = {}
    for name, question in questions(store).items():
        try:
            answers[name] = question()
        except ConvfsError:
            continue
    return answers


def differing(answers: Answers, expected: Answers) -> list[str]:
    """Return which answers are wrong."""
    return [name for name, answer in answers.items() if answer != expected[name]]
