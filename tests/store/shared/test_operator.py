"""Whoever runs the servers of a space, or reads the disk that it is on, finds no text of it there."""

import os
import re
import shutil
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import zstandard

from fusefs.text.render import FileRenderer
from store.ids import hash_bytes
from store.importing.importer import Importer
from store.shared import remote
from store.shared.connect import connect
from store.shared.space import Place
from store.store import Store
from tests.servers import S3, Postgres
from tests.spaces import let_in

NAME = "orchard"
CONTROL = b"Whoever runs it may read this one."
BLOB = b"Kumquat-filings. " * 40_000
SMALL = b'"Medlar-said"'
KNOWN = {
    "a prompt that was imported": b"Pomelo-question",
    "its answer": b"Quince-answer",
    "the directory of a session": b"Rambutan-shop",
    "what was appended": b"Medlar-said",
    "what it was changed to": b"Loquat-instead",
    "a title": b"Jabuticaba-title",
    "a label": b"Feijoa-label",
    "a project": b"Salak-project",
    "a file": b"Kumquat-filings",
    "the name of a machine": b"cherimoya-laptop",
    "the name of a blob": bytes(hash_bytes(BLOB)),
    "the name of a small blob": bytes(hash_bytes(SMALL)),
}
_FRAME = re.compile(re.escape(b"\x28\xb5\x2f\xfd"))
_HEX = re.compile(rb"\\\\?x((?:[0-9a-f]{2}){16,})")
_MOST = 4 << 20


def forms(text: bytes) -> Iterator[bytes]:
    """Yield a text as it may be written down."""
    yield text
    yield text.hex().encode()
    yield text.hex().upper().encode()
    for shift in range(3):
        # without the letters that go by what stands beside it
        yield b64encode(bytes(shift) + text)[4 if shift else 0 : -4]
    if text.isascii():
        for encoding in ("utf-16-le", "utf-16-be"):
            yield text.decode().encode(encoding)


def texts(data: bytes) -> Iterator[bytes]:
    """Yield some bytes, and all that is written in hex in them, or compressed."""
    yield data
    for found in _HEX.finditer(data):
        yield from texts(bytes.fromhex(found[1].decode()))
    for place in _FRAME.finditer(data):
        try:
            yield zstandard.ZstdDecompressor().decompressobj().decompress(data[place.start() : place.start() + _MOST])
        except zstandard.ZstdError:
            continue


def seen(pieces: Iterator[bytes], known: dict[str, bytes]) -> set[str]:
    """Return which of the known texts are in the pieces, in any form."""
    wanted = [(name, form) for name, text in known.items() for form in forms(text)]
    found = set()
    for piece in pieces:
        for text in texts(piece):
            found |= {name for name, form in wanted if form in text}
    return found


def files(directory: Path) -> Iterator[bytes]:
    for path in sorted(directory.rglob("*")):
        if path.is_file() and not path.is_symlink():
            yield os.fsencode(path.name)
            yield path.read_bytes()


def live(root: Path, other: Path, join: Callable[[], object], joined: Callable[[], object], work: Path) -> None:
    """Do on two machines what people do, with the known texts in all of it."""
    join()
    with Store.open(root, renderer=FileRenderer()) as store:
        session = work / "Rambutan-shop" / ".aider.chat.history.md"
        session.parent.mkdir()
        session.write_text(
            "\n# aider chat started at 2026-03-05 12:00:00\n\n#### Pomelo-question?\n\nQuince-answer.\n"
        )
        assert Importer(store).run([session]).imported == 1
        context = store.contexts.create(metadata={"project": "Salak-project", "title": "Jabuticaba-title"}).context
        first = store.contexts.append(context, SMALL, "line")
        store.contexts.patch(context, {first.turn_id: b'"Loquat-instead"'})
        store.contexts.set_metadata(context, {"labels": ["Feijoa-label"]})
        store.contexts.append(context, BLOB, "file")
    joined()
    with Store.open(other, renderer=FileRenderer()) as store:
        assert bytes(store.blobs.blob(hash_bytes(BLOB))) == BLOB
        store.contexts.append(context, SMALL, "line")


def encrypted(place: Place, directory: Path) -> None:
    root, other = directory / "a", directory / "b"
    remote.init(place, NAME)
    live(
        root,
        other,
        lambda: remote.join(place, NAME, root, "cherimoya-laptop"),
        lambda: let_in(root, other, "cherimoya-laptop"),
        directory,
    )
    remote.revoke(root, "2")
    # with this, what is searched is known to be where things are
    with closing(connect(place, NAME)) as raw:
        raw.bucket.put("control", CONTROL)
        raw.records.swap("control", 0, CONTROL)


def test_in_a_directory(memory_path: Path) -> None:
    encrypted(Place(str(memory_path / "server")), memory_path)
    assert seen(files(memory_path / "server"), {**KNOWN, "control": CONTROL}) == {"control"}


def test_a_plain_space_has_them_all(memory_path: Path) -> None:
    place = Place(str(memory_path / "server"))
    remote.init(place, NAME, plain=True)
    roots = [memory_path / "a", memory_path / "b"]
    join, joined = (lambda root=root: remote.join(place, NAME, root, "cherimoya-laptop") for root in roots)
    live(*roots, join, joined, memory_path)
    assert seen(files(memory_path / "server"), KNOWN) == set(KNOWN)


def test_on_servers(memory_path: Path, postgres: Postgres, s3: S3) -> None:
    postgres.execute("CREATE DATABASE orchard")
    place = Place(postgres=postgres.url("orchard"), objects=f"{s3.url}/orchard")
    encrypted(place, memory_path)
    known = {**KNOWN, "control": CONTROL}
    dump = postgres.run("pg_dump", "-h", "127.0.0.1", "-p", postgres.port, "-U", "postgres", "orchard").stdout
    assert b"convfs.entry" in dump
    assert seen(iter([dump]), known) == {"control"}
    # a checkpoint, so that the tables are on the disk, beside the log of all that was written to them
    postgres.execute("CHECKPOINT")
    assert seen(files(postgres.data), known) == {"control"}
    s3.shell("volume.list\n")
    assert seen(files(s3.directory / "data"), known) == {"control"}
    postgres.execute("DROP DATABASE orchard WITH (FORCE)")
    shutil.rmtree(memory_path / "a")


@pytest.mark.parametrize("name", KNOWN)
def test_each_form_of_a_text_is_found(name: str) -> None:
    text = KNOWN[name]
    around = b"before " + text + b" behind"
    written = [
        around,
        around.hex().encode(),
        *(b64encode(b"x" * shift + around) for shift in range(3)),
        b"some bytes, then " + zstandard.compress(around * 9) + b" and more",
        b"COPY \\\\x" + zstandard.compress(around * 9).hex().encode(),
    ]
    if text.isascii():
        written += [around.decode().encode("utf-16-le"), around.decode().encode("utf-16-be")]
    for one in written:
        assert seen(iter([one]), {name: text}) == {name}
    assert seen(iter([around.replace(text, b"")]), {name: text}) == set()
