"""A store with a little of everything in it, and every question that one can ask of it."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from fusefs.text.render import FileRenderer
from store.commit.open_texts import OpenText
from store.conversations.contexts import Append
from store.disk.turn_format import Encoding
from store.editing.editor import DELETED, Editor
from store.errors import ConvfsError, DamageError
from store.ids import hash_bytes, tip_of
from store.importing.importer import Importer
from store.retention.pruner import delete, prune_versions
from store.store import Store
from store.upkeep.gc import Reclaiming, Since
from tests.store.content.noise import edited, noise
from tests.store.importing.sessions import lines, session

Answers = dict[str, object]
Question = Callable[[], object]


def fill(root: Path, folder: Path) -> None:
    """Make a store at ``root`` and close it."""
    with Store.open(root, renderer=FileRenderer()) as store:
        path = session(folder, lines("Please fix the login bug.", "I will. " * 300, "Thank you.", "One thing " * 99))
        Importer(store).run([path])
        put = store.intake.put(bytes(range(256)) * 40)
        store.intake.put(b"text in a blob of its own, " * 60)
        first = store.contexts.create(metadata={"project": "shop", "name": "first", "title": "A first one"}).context
        for number in range(6):
            store.contexts.append(
                first, b'{"type":"user","number":%d,"text":"%s"}' % (number, b"word " * 300), "jp.event.v1"
            )
        store.checkpointer.flush()
        store.contexts.append_many(first, [Append(b"line %d" % number, "plain.text") for number in range(5)])
        base = store.contexts.last(first, 4)[0].turn_id
        second = store.contexts.fork(first, base, metadata={"project": "shop", "name": "second"}).context
        store.contexts.append(second, b'{"type":"user","text":"another way"}', "jp.event.v1")
        store.contexts.append(second, bytes(3000), "raw.bytes")
        store.contexts.set_metadata(second, {"blob": put.hex(), "labels": ["a", "b"]})
        Importer(store).run([session(folder, path.read_bytes() + lines("And another.", start=4))])
        third = store.contexts.create(metadata={"project": "shop", "name": "third"}).context
        text = noise(20_000)
        store.contexts.append(third, b'{"type":"user","text":"%s"}' % text.replace(b"\n", b"\\n"), "jp.event.v1")
        for place in (0.2, 0.9):
            text = edited(text, place)
            store.checkpointer.flush()
            Editor(store).edit(third, {1: b'{"type":"user","text":"%s"}' % text.replace(b"\n", b"\\n")})
        store.settings = msgspec.structs.replace(store.settings, edits="overlay")
        patched = b'{"type":"user","number":2,"text":"corrected, %s"}' % (b"word " * 300)
        Editor(store).edit(first, {3: patched})
        fourth = Editor(store).fork(first, "fourth", at=5).context
        Editor(store).edit(fourth, {2: DELETED, 3: b'{"type":"user","number":3,"text":"and once more"}'})
        Editor(store).edit(first, {1: DELETED})
        Editor(store).restore(first, 2)
        served = store.contexts.create().context
        root = store.intake.put(b"a tree of files")
        keyed = store.contexts.append(
            served, b"from a client", "com.example.thing", idempotency_key=b"key", fs_root=root
        )
        store.contexts.append(served, b"\x81\xa1a\x01", "com.example.thing", encoding=Encoding.MSGPACK, type_version=2)
        store.contexts.attach_fs(keyed.turn_id - 1, store.intake.put(b"another tree"))
        store.contexts.register_type("com.example.thing", 2)
        store.contexts.patch(served, {keyed.turn_id: b"corrected"})
        for _ in range(2):
            turn = store.open_turns.open(served, "com.example.text")
            turn.add(b"piece by ")
            turn.add(b"piece")
        turn.seal()
        gone = store.contexts.create(metadata={"project": "shop", "name": "gone", "source": "/gone"}).context
        turns = store.contexts.append_many(gone, [Append(b"line %d" % number, "plain.text") for number in range(9, 12)])
        delete(store, gone, store.contexts.tip(gone))
        prune_versions(store, third, store.catalogue.versions(third)[0].seq)
        store.checkpointer.flush()
        since = Since(store.files.heads.length, store.files.turns.count)
        Reclaiming(store.writer, [(turns[0].turn_id, len(turns))], since).run()
        ask(store)


def questions(store: Store) -> dict[str, Question]:
    """Return everything that can be asked, by a name for it; turns and contexts are those that :func:`fill` made."""
    asked: dict[str, Question] = {}
    for context in (1, 2, 3, 4):
        asked[f"head {context}"] = lambda context=context: store.writer.head(context)
        asked[f"last {context}"] = lambda context=context: store.contexts.last(context, 100)
        asked[f"range {context}"] = lambda context=context: store.contexts.range_by_depth(context, 2, 3)
        asked[f"conversation {context}"] = lambda context=context: store.library.conversation(context)
        asked[f"versions {context}"] = lambda context=context: store.catalogue.versions(context)
    for context in (2, 5):
        asked[f"tip {context}"] = lambda context=context: store.contexts.tip(context)
        asked[f"now {context}"] = lambda context=context: store.turns.path_to_root(store.contexts.tip(context))
        asked[f"rows of {context}"] = lambda context=context: list(store.records.rows(store.contexts.tip(context)))
        for seq in range(5, 90, 9):
            asked[f"tip {context} at {seq}"] = lambda context=context, seq=seq: store.contexts.tip(context, seq)
    for patch in (1, 2, 3):
        asked[f"patch {patch}"] = lambda patch=patch: store.turns.path_to_root(tip_of(10, patch))
        asked[f"patched by {patch}"] = lambda patch=patch: payloads_of(store, tip_of(10, patch))
    asked["served"] = lambda: store.contexts.last(6, 9)
    asked["served, the latest"] = lambda: store.contexts.last(6, 9, latest=True)
    asked["open turns"] = lambda: whole(store.writer.texts.of())
    asked["types"] = store.contents.types
    for turn in range(1, 25):
        asked[f"root {turn}"] = lambda turn=turn: store.contexts.fs_root(turn)
    asked["key"] = lambda: store.writer.keys.get(6, b"key")
    for name in ("first", "second", "third", "fourth"):
        asked[f"find {name}"] = lambda name=name: store.library.find("shop", name)
    for turn in range(1, 22):
        asked[f"turn {turn}"] = lambda turn=turn: store.turns.get(turn)
        asked[f"payload {turn}"] = lambda turn=turn: store.contents.payload(turn)
        asked[f"path {turn}"] = lambda turn=turn: store.turns.path_to_root(turn)
        asked[f"type {turn}"] = lambda turn=turn: store.contents.type_name(store.turns.get(turn).type_tag)
        asked[f"rows {turn}"] = lambda turn=turn: list(store.records.rows(turn))
        asked[f"events {turn}"] = lambda turn=turn: [
            sound(event) for _row, event in store.viewer.events(store.records.rows(turn))
        ]
        asked[f"resources {turn}"] = lambda turn=turn: [
            (row, store.records.resource(row)) for row in store.records.resources(turn)
        ]
    for data in (bytes(range(256)) * 40, b"text in a blob of its own, " * 60):
        name = hash_bytes(data)
        asked[f"blob {name.hex()}"] = lambda name=name: store.blobs.blob(name)
        asked[f"size {name.hex()}"] = lambda name=name: store.blobs.size(name)
        asked[f"pieces {name.hex()}"] = lambda name=name: b"".join(store.blobs.pieces(name))
    asked["pruned"] = lambda: store.catalogue.pruned("source", "/gone")
    asked["projects"] = store.catalogue.projects
    asked["conversations"] = store.library.conversations
    asked["conversations of a project"] = lambda: store.library.conversations("shop")
    asked["count"] = lambda: len(store.catalogue.page())
    asked["days"] = lambda: [store.catalogue.by_day(day) for day in store.catalogue.days("2026-03")]
    asked["labels"] = lambda: [(label, store.catalogue.labelled(label)) for label in store.catalogue.labels()]
    asked["recent"] = lambda: store.catalogue.recent(2)
    return asked


def payloads_of(store: Store, tip: int) -> list[bytes]:
    return [store.contents.payload(turn.turn_id) for turn in store.turns.path_to_root(tip)]


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
