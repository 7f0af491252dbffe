"""A secret that is everywhere in a store, and then nowhere; everything else is as it was."""

import random
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.artifacts.names import kept_outputs
from store.commit.request import Request
from store.content import zstd
from store.disk.turn_format import REDACTED, Encoding
from store.errors import ConvfsError
from store.events.conversation import ARTIFACTS
from store.paths import REDACTING
from store.redaction.proof import Proof, prove
from store.redaction.redaction import Redacted, Redaction
from store.redaction.secrets import MARK, Secrets
from store.redaction.wanted import Wanted, find
from store.store import Store
from store.upkeep.fsck import fsck, reindex
from tests.conftest import scratch
from tests.model import instead
from tests.store.redaction.planted import ENCODED, SECRET, plant

SECRETS = Secrets([ENCODED, b"tr0ub4dor&3"])


@pytest.fixture(scope="module")
def planted() -> Iterator[Path]:
    folder = scratch()
    plant(folder / "store", folder / "home")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def root(planted: Path, memory_path: Path) -> Path:
    shutil.copytree(planted / "store", memory_path / "store", symlinks=True)
    instead(memory_path / "store")
    return memory_path / "store"


def opened(root: Path) -> Store:
    return Store.open(root, renderer=FileRenderer())


def redacted(root: Path) -> Redacted:
    with opened(root) as store:
        return Redaction(store, SECRETS).run()


def everything(store: Store) -> dict[str, object]:
    """Return what can be seen of every conversation in each of its versions, every blob that is named too."""
    seen: dict[str, object] = {}
    for context, tip in store.catalogue.states():
        rows = store.records.rows(tip)
        seen[f"{context} {tip}"] = [store.contents.payload(row.turn) for row in rows]
        for row in rows:
            store.records.event(row)
        for resource in store.records.resources(tip):
            store.records.resource(resource)
    for entry in store.catalogue.every():
        for name, output in kept_outputs(store.blobs, entry, ARTIFACTS).items():
            assert output.blob is not None
            data = b"".join(store.blobs.pieces(output.blob))
            assert len(data) == output.size
            seen[f"{entry.id} {name}"] = data
        seen[f"described {entry.id}"] = entry.metadata
    return seen


def proof(root: Path, done: Redacted) -> Proof:
    with opened(root) as store:
        return prove(store, SECRETS, done.gone)


def test_it_is_everywhere_before(root: Path) -> None:
    with opened(root) as store:
        found = prove(store, SECRETS, ()).found
    for where in ("index.db", "heads.log, seq", "heads.log", ".pack, offset", ".notes.swp", "1-1", "growing", "link"):
        assert any(where in place for place in found), where


@pytest.mark.parametrize("before", [65_536 - 8, 65_536, 2 * 65_536 - 1, 200_000])
def test_the_proof_looks_into_what_is_long_wherever_a_secret_stands(memory_path: Path, before: int) -> None:
    noise = random.Random(before).randbytes(300_000).hex().encode()
    text = noise[:before] + b"tr0ub4dor&3" + noise[:150_000]
    with opened(memory_path / "store") as store:
        (store.root / "file").write_bytes(text)
        with closing(sqlite3.connect(store.root / "beside.db")) as database, database:
            database.execute("CREATE TABLE kept (value BLOB)")
            database.execute("INSERT INTO kept VALUES (?)", (zstd.compress(text),))
        assert sorted(prove(store, SECRETS, ()).found) == ["beside.db", "file"]


@pytest.mark.parametrize("sealed", [False, True])
def test_nothing_is_left(root: Path, sealed: bool) -> None:
    with opened(root) as store:
        if sealed:
            assert [*store.sealer.steps()]
        before = everything(store)
        done = Redaction(store, SECRETS).run()
        live = prove(store, SECRETS, done.gone)
        assert (live.found, live.unread) == ([], [])
        assert fsck(store) == []
        after = everything(store)
        # what is shown of what did not hold it is what it was
        assert after.keys() == before.keys()
        for name, value in before.items():
            if not SECRETS.hold(repr(value).encode()) and "described" not in name:
                assert after[name] == value
    again = proof(root, done)
    assert (again.found, again.unread) == ([], [])
    assert again.files > 10
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert b"tr0ub4dor" not in path.read_bytes()
    with opened(root) as store:
        assert store.recovered == []
        assert everything(store) == after
        assert fsck(store) == []
    reindex(root, FileRenderer())
    with opened(root) as store:
        assert everything(store) == after
    assert proof(root, done).found == []


def test_a_mark_stands_in_its_place_in_every_version(root: Path) -> None:
    done = redacted(root)
    with opened(root) as store:
        first = store.catalogue.every()[0]
        texts = [
            b"".join(store.contents.payload(row.turn) for row in store.records.rows(v.head))
            for v in store.catalogue.versions(first.id)
        ]
        assert [text.count(MARK) > 0 for text in texts] == [True] * len(texts)
        assert first.id in done.contexts
        versions = store.catalogue.versions(first.id)
        assert (versions[-1].action, versions[-1].head) == ("redact", versions[-2].head)
        turns = [store.turns.get(turn) for turn in done.turns]
        assert all(turn.flags & REDACTED for turn in turns)
        assert all(store.turns.get(turn).flags & REDACTED == 0 for turn in (1, 5))
        titles = [entry.title for entry in store.catalogue.every() if entry.project == "p"]
        assert f"About {MARK.decode()}" in titles
        (open_turn,) = store.writer.texts.of()
        assert open_turn.text.startswith(b"it is " + MARK)
        assert len(open_turn.text) == len(b"it is , yes") + len(ENCODED)


def test_an_open_turn_goes_on(root: Path) -> None:
    redacted(root)
    with opened(root) as store:
        (left,) = store.writer.texts.of()
        store.open_turns.resume(left.context_id, left.number).add(b" and more", at=len(left.text))
        turn = store.open_turns.resume(left.context_id, left.number).seal()
        assert store.contents.payload(turn.turn_id) == left.text + b" and more"


def test_what_is_named_by_another_digest_is_found_by_its_new_one(root: Path) -> None:
    redacted(root)
    with opened(root) as store:
        for entry in store.catalogue.every():
            for row in store.records.rows(entry.head) if entry.head else ():
                if named := re.search(rb"blob:sha256:([0-9a-f]{64})", store.contents.payload(row.turn)):
                    data = store.contents.aliased("sha256", bytes.fromhex(named[1].decode()))
                    assert data is not None
                    assert data.startswith(b"a file with [redacted]")
                    tree = store.contexts.fs_root(row.turn)
                    assert tree is not None
                    assert SECRETS.hold(store.blobs.blob(tree)) is False
                    assert store.blobs.blob(type(tree)(store.blobs.blob(tree)[-32:])) == data
                    return
    pytest.fail("nothing names it")


def test_a_second_time_there_is_nothing_to_do(root: Path) -> None:
    redacted(root)
    with opened(root) as store:
        extent = Redaction(store, SECRETS).extent()
        assert (extent.contents, extent.turns, extent.contexts) == (0, 0, ())


def test_a_plan_changes_nothing(root: Path) -> None:
    with opened(root) as store:
        before = everything(store)
        extent = Redaction(store, SECRETS).extent()
        assert extent.turns > 20
        assert len(extent.contexts) >= 4
        assert everything(store) == before
        assert not (root / REDACTING).exists()


def test_one_event_goes_in_every_version_and_fork(root: Path) -> None:
    with opened(root) as store:
        entry = store.catalogue.every()[0]
        found = find(store, Wanted(events=((entry.id, 3),)))
        done = Redaction(store, found.secrets, found.also).run()
        assert prove(store, found.secrets, done.gone).found == []
        for context, tip in store.catalogue.states():
            rows = store.records.rows(tip)
            if context <= 2 and len(rows) > 2:
                payload = store.contents.payload(rows[2].turn)
                assert b"word word" not in payload
                assert MARK in payload
        assert fsck(store) == []
    with pytest.raises(ConvfsError, match="no event 99"), opened(root) as store:
        find(store, Wanted(events=((1, 99),)))


def test_patterns_tell_which_texts_are_meant(root: Path) -> None:
    with opened(root) as store:
        found = find(store, Wanted(patterns=(r"tr0ub4dor&\d",)))
        assert [literal.decode() for literal in found.secrets.literals] == [SECRET[:11]]
        (match,) = found.matches
        assert match.places > 3
        assert SECRET[:11] not in match.hint
        done = Redaction(store, found.secrets, found.also).run()
        assert prove(store, found.secrets, done.gone).found == []


def test_other_writers_go_on(root: Path) -> None:
    """Turns that are appended while a redaction is under way are there afterwards, or redacted as well."""
    import threading

    with opened(root) as store:
        context = store.contexts.create(metadata={"project": "p", "name": "busy"}).context
        stop = threading.Event()
        written: list[int] = []

        def write() -> None:
            number = 0
            while not stop.is_set():
                turn = store.contexts.append(context, b'{"type":"user","text":"busy %d"}' % number, "jp.event.v1")
                written.append(turn.turn_id)
                number += 1

        thread = threading.Thread(target=write)
        thread.start()
        try:
            done = Redaction(store, SECRETS).run()
        finally:
            stop.set()
            thread.join()
        assert [store.contents.payload(turn) for turn in written] == [
            b'{"type":"user","text":"busy %d"}' % number for number in range(len(written))
        ]
        assert prove(store, SECRETS, done.gone).found == []
        assert fsck(store) == []


def test_what_is_about_to_be_named_is_named_by_its_new_name(root: Path) -> None:
    """Who has brought content, and commits only after it was redacted, commits what took its place."""
    with opened(root) as store:
        context = store.contexts.create(metadata={"project": "p", "name": "late"}).context
        payload = b'{"type":"user","text":"late %b"}' % ENCODED[:11]
        load = store.intake.load()
        (digest,) = load.payloads([payload])
        load.sync()
        done = Redaction(store, SECRETS).run()
        assert digest in done.gone
        turn = store.contexts.new_turn(digest, "jp.event.v1", Encoding.JSON)
        metadata = b'{"blob":"%b"}' % digest.hex().encode()
        types = store.writer.types_for(["jp.event.v1"])
        written = store.writer.submit(Request(context, turns=[turn], types=types, changes=metadata)).written[0]
        assert store.contents.payload(written.turn_id) == payload.replace(ENCODED[:11], b"[redacted]*")
        assert store.catalogue.entry(context).metadata["blob"] == written.payload_hash.hex()
        assert prove(store, SECRETS, done.gone).found == []
        # what is brought once more is meant
        again = store.contexts.append(context, payload, "jp.event.v1")
        assert store.contents.payload(again.turn_id) == payload
        assert fsck(store) == []


@pytest.mark.parametrize("word", ["title", "prefix", "import", "claude", "offse"])
def test_what_the_store_itself_says_is_refused(root: Path, word: str) -> None:
    with opened(root) as store, pytest.raises(ConvfsError, match="that the store itself uses"):
        find(store, Wanted(texts=(word.encode(),)))
