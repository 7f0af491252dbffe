"""A store with a secret everywhere in it, in every spelling."""

import base64
import json
import os
from pathlib import Path

import msgspec

from fusefs.text.render import FileRenderer
from store.commit.request import Request
from store.conversations.contexts import Append
from store.disk.turn_format import Encoding
from store.editing.editor import DELETED, Editor
from store.events.conversation import ARTIFACTS
from store.ids import hash_bytes
from store.importing.importer import Importer
from store.store import Store
from tests.store.content.noise import edited, noise
from tests.store.importing.sessions import line, lines, session

SECRET = 'tr0ub4dor&3 "\u00e9pine"\t/x\\'
ENCODED = SECRET.encode()
IN_JSON = json.dumps(SECRET)[1:-1]


def plant(root: Path, folder: Path) -> None:
    """Make a store at ``root`` and close it; ``folder`` is for what it imports."""
    with Store.open(root, renderer=FileRenderer()) as store:
        imported(store, folder)
        written(store, root)
        store.library.conversations()


def imported(store: Store, folder: Path) -> None:
    text = "word " * 400
    nested = json.dumps({"command": f"login {SECRET}"})
    content = lines("Please log in.", f"With {SECRET}?", f"{text}{SECRET}{text}", nested, "Thank you.")
    # the same text in many records, so that they share it
    content += b"".join(line(f"{text}{SECRET}{text}", number) + b"\n" for number in range(5, 9))
    path = session(folder, content)
    Importer(store).run([path])
    entry = store.catalogue.every()[0]
    Editor(store).fork(entry.id, "a fork", at=3)
    Editor(store).edit(entry.id, {2: line("With what?", 1), 3: line(f"{text}{SECRET}, {text}", 2)})
    Editor(store).edit(entry.id, {5: DELETED})


def written(store: Store, root: Path) -> None:
    metadata: dict[str, object] = {"project": "p", "name": f"is {SECRET.encode('ascii', 'ignore').decode()[:11]}"}
    first = store.contexts.create(metadata=metadata | {"title": f"On {SECRET}", "labels": ["a", SECRET]}).context
    store.contexts.set_metadata(first, {"title": f"About {SECRET}"})
    for number in range(6):
        said = {"type": "user", "number": number, "text": f"word {number} " * 300 + SECRET * (number == 3)}
        store.contexts.append(first, json.dumps(said, ensure_ascii=number % 2 == 0).encode(), "jp.event.v1")
    store.checkpointer.flush()
    image = (
        os.urandom(900).replace(b"t", b"u").replace(b"\\", b"u")
        + ENCODED
        + os.urandom(90).replace(b"t", b"u").replace(b"\\", b"u")
    )
    encoded = base64.b64encode(image).decode()
    store.contexts.append(
        first, json.dumps({"image": encoded, "url": f"data:image/x;base64,{encoded}"}).encode(), "x.v1"
    )
    store.contexts.append(first, json.dumps({"short": base64.b64encode(b"ab" + ENCODED).decode()}).encode(), "x.v1")
    store.contexts.append(first, f"wide {SECRET}".encode("utf-16-le"), "x.bytes", encoding=Encoding.RAW_BYTES)
    value = b"\x81\xa4text" + b"\xd9" + bytes([len(ENCODED)]) + ENCODED
    store.contexts.append(first, value, "x.packed", encoding=Encoding.MSGPACK)
    store.contexts.append(first, b'{"keyed":1}', "x.v1", idempotency_key=b"key of " + ENCODED)
    versions(store)
    patches(store, first)
    outputs(store, root, first)
    open_turns(store, first)
    trees(store, first)
    store.contexts.append_many(first, [Append(b'{"plain":%d}' % number, "x.v1") for number in range(20)])


def versions(store: Store) -> None:
    """A version stored as a delta against one that held it, and the other way round."""
    context = store.contexts.create(metadata={"project": "p", "name": "versions"}).context
    text = noise(40_000)
    with_it = text[:20_000] + ENCODED + text[20_000:]
    store.contexts.append(context, json.dumps({"type": "user", "text": with_it.decode()}).encode(), "jp.event.v1")
    for place in (0.2, 0.9):
        store.checkpointer.flush()
        with_it = edited(with_it, place)
        Editor(store).edit(context, {1: json.dumps({"type": "user", "text": with_it.decode()}).encode()})
    store.checkpointer.flush()
    clean = with_it.replace(ENCODED, b"nothing")
    Editor(store).edit(context, {1: json.dumps({"type": "user", "text": clean.decode()}).encode()})


def patches(store: Store, context: int) -> None:
    before, store.settings = store.settings, msgspec.structs.replace(store.settings, edits="overlay")
    said = {"type": "user", "number": 1, "text": f"corrected, {SECRET} {'word ' * 300}"}
    Editor(store).edit(context, {2: json.dumps(said).encode()})
    Editor(store).edit(context, {1: b'{"type":"user","text":"corrected"}'})
    store.settings = before


def outputs(store: Store, root: Path, context: int) -> None:
    artifacts = store.artifacts
    # large enough for chunks; one lies across whatever ends there are, somewhere
    pieces = [noise(700, seed) + ENCODED for seed in range(400)]
    for name, data in (("large", b"".join(pieces)), ("small", b"log\n" + ENCODED + b"\n")):
        listed = artifacts.begin(context, ARTIFACTS, name)
        artifacts.add(context, ARTIFACTS, listed, data)
        artifacts.end(context, ARTIFACTS, listed)
    growing = artifacts.begin(context, ARTIFACTS, "growing")
    artifacts.add(context, ARTIFACTS, growing, b"grows " + ENCODED)
    scratch = root / "scratch" / "p"
    scratch.mkdir(parents=True, exist_ok=True)
    (scratch / ".notes.swp").write_bytes(b"\0swap" + ENCODED + b"\0")
    os.setxattr(scratch / ".notes.swp", "user.note", ENCODED)
    (scratch / "link").symlink_to("elsewhere-tr0ub4dor&3")
    drafts = root / "scratch" / ".drafts"
    drafts.mkdir()
    text = b"draft of " + ENCODED
    (drafts / "1-1").write_bytes(b'{"context":1,"digest":"%b"}\n' % hash_bytes(text).hex().encode() + text)


def open_turns(store: Store, context: int) -> None:
    for sealed in (True, False):
        turn = store.open_turns.open(context, "text.assistant.v1")
        for piece in (b"it is ", ENCODED[:7], ENCODED[7:], b", yes"):
            turn.add(piece)
        if sealed:
            turn.seal()


def trees(store: Store, context: int) -> None:
    """Content that is named by its hash, in texts and in trees of files."""
    blob = store.intake.put(b"a file with " + ENCODED * 3)
    tree = store.intake.put(b"\x81\xa4file\xc4\x20" + blob)
    alias = hash_bytes(b"what another algorithm would say")
    store.writer.submit(Request(0, move_head=False, aliases=(("sha256", alias, blob),)))
    store.contexts.append(context, b'{"see":"blob:sha256:%b"}' % alias.hex().encode(), "x.v1", fs_root=tree)
