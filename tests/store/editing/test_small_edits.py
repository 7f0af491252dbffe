"""Small edits of large content: what they add to a store."""

import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.commit.request import Request
from store.content.cuts import cut
from store.conversations.contexts import Append
from store.disk.blob_format import Compression
from store.disk.file_header import Damage
from store.editing.commit import Changed
from store.editing.editor import Editor
from store.errors import DamageError
from store.events.event import BlockEdit, EventEdit
from store.formats.claude_code.lens import ClaudeCodeLens
from store.ids import hash_bytes
from store.paths import SETTINGS
from store.store import Store
from store.upkeep.fsck import fsck
from tests.model import freeze
from tests.store.content.noise import EDIT, edited, noise
from tests.store.editing.records import TYPE, conversation, said, shown
from tests.store.formats.earlier import Earlier
from tests.store.importing.sessions import by_source, imported, line, native, session

KIB, MIB = 1 << 10, 1 << 20
LIMIT = 64 * KIB
FEW = 8 * KIB
"""The cost of a commit, a row of the index and a delta."""

Make = Callable[[bytes], bytes]


def once(text: bytes) -> bytes:
    """Return a record that a tool's output stands in."""
    block = {"type": "tool_result", "tool_use_id": "c1", "content": text.decode()}
    return line("", 2, message={"role": "user", "content": [block]})


def twice(text: bytes) -> bytes:
    """Return a record that has it for programs, too."""
    return json.dumps({**json.loads(once(text)), "toolUseResult": {"stdout": text.decode(), "stderr": ""}}).encode()


def numbered(text: bytes) -> bytes:
    """Return a record that has it with and without the numbers of its lines."""
    lines = text.decode().split("\n")
    shown = "\n".join(f"{number:6}\t{content}" for number, content in enumerate(lines, 1))
    file = {"filePath": "/src/digits.txt", "content": text.decode(), "totalLines": len(lines)}
    return json.dumps(
        {**json.loads(once(shown.encode())), "toolUseResult": {"type": "text", "file": file}}, ensure_ascii=False
    ).encode()


def many(text: bytes) -> bytes:
    """Return a record of short strings, none of which is stored for itself."""
    return json.dumps({**json.loads(once(b"")), "toolUseResult": {"lines": text.decode().split("\n")}}).encode()


MAKERS = {"once": once, "twice": twice, "numbered": numbered, "many": many}


def taken(root: Path) -> int:
    """Return how many bytes the files of a store have."""
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


@pytest.fixture(params=["branch", "overlay"])
def root(memory_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return where a store is to be, which keeps edits so or so."""
    path = memory_path / "store"
    path.mkdir()
    (path / SETTINGS).write_text(f'edits = "{request.param}"\n')
    return path


@contextmanager
def opened(root: Path) -> Iterator[Store]:
    """Give an open store; it is sound afterwards."""
    with Store.open(root, renderer=FileRenderer()) as store:
        yield store
        assert fsck(store) == []


def begun(root: Path, *payloads: bytes) -> int:
    """Make a store with one conversation, measured."""
    with opened(root) as store:
        context = conversation(store, payloads)
        list(store.records.rows(store.writer.head(context).tip))
        return context


def places(store: Store) -> list[Compression]:
    """Return how the records of the packs are compressed."""
    return [record.compression for _, _, record in store.files.packs.scan() if not isinstance(record, Damage)]


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("size", [100 * KIB, MIB, 3 * MIB])
def test_one_line_of_much(root: Path, make: Make, size: int) -> None:
    """The record is journalled or, if it is large, written to the packs at once; both share what there is."""
    text = noise(size)
    context = begun(root, said("Look"), make(text), said("Thanks"))
    whole = taken(root)
    assert whole > size / 2
    for place in (0.0, 0.5, 1.0):
        before = taken(root)
        text = edited(text, place)
        with opened(root) as store:
            Editor(store).edit(context, {2: make(text)})
        assert taken(root) - before < FEW
        with opened(root) as store:
            assert shown(store, context)[1] == make(text)


def test_through_the_lens_and_back_to_a_session(root: Path) -> None:
    text = noise(MIB)
    records = [line("Look", 0), line("I do", 1), numbered(text), line("Thanks", 3)]
    path = session(root.parent, b"".join(record + b"\n" for record in records))
    with opened(root) as store:
        imported(store, path)
        list(store.records.rows(by_source(store, path).head))
    before = taken(root)
    assert before > MIB
    with opened(root) as store:
        context = by_source(store, path).id
        lens, earlier = ClaudeCodeLens(), Earlier()
        [block] = lens.view(records[2], earlier).blocks
        changed = edited(block.text.encode(), 0.4).replace(b"this line", b"  6475\tthis line")
        payload = lens.edit(records[2], EventEdit((BlockEdit(block.path, changed.decode(), block.name),)), earlier)
        Editor(store).edit(context, {3: payload})
        assert native(store, path) == b"".join(record + b"\n" for record in (*records[:2], payload, records[3]))
    assert taken(root) - before < LIMIT


def test_through_a_resource(root: Path) -> None:
    """A file that a tool has read stands in a record with the numbers of its lines and without."""
    text = noise(MIB)
    context = begun(root, said("Look"), numbered(text))
    before = taken(root)
    with opened(root) as store:
        changed = edited(text, 0.7)
        payload = ClaudeCodeLens().edit_resource(numbered(text), 0, changed, Earlier())
        Editor(store).edit(context, {2: payload})
        seen = json.loads(shown(store, context)[1] or b"")
        assert seen["toolUseResult"]["file"]["content"] == changed.decode()
        assert EDIT.decode() in seen["message"]["content"][0]["content"]
    assert taken(root) - before < FEW


def test_any_number_of_edits(root: Path) -> None:
    text, source = noise(MIB), random.Random(3)
    context = begun(root, twice(text))
    with opened(root) as store:
        editor = Editor(store)
        for number in range(50):
            before = store.files.packs.end[1]
            text = edited(text, source.random()) + b"%d" % number
            editor.edit(context, {1: twice(text)})
            if number % 3 == 0:
                store.checkpointer.flush()
            assert store.files.packs.end[1] - before < LIMIT
        versions = store.catalogue.versions(context)
        assert len(versions) == 51
        # all against the first, as long as they stay small
        [(content, _size)] = _contents(store, context)
        assert len(store.blobs.bases(content)) == 1
        for version in versions:
            assert isinstance(store.contents.payload(version.head), bytes)
    assert taken(root) < 2 * MIB


def test_edits_that_were_not_packed_when_the_process_was_killed(root: Path) -> None:
    text = noise(300 * KIB)
    context = begun(root, said("Look"), twice(text), said("Thanks"))
    with opened(root) as store:
        before = store.files.packs.end[1]
        for place in (0.1, 0.5, 0.9):
            text = edited(text, place)
            Editor(store).edit(context, {2: twice(text)})
        killed = freeze(store, root.parent / "killed")
    with opened(killed) as store:
        assert store.recovered
        assert shown(store, context)[1] == twice(text)
        assert store.files.packs.end[1] - before < FEW
    with Store.open(killed, renderer=FileRenderer(), reindex=True) as store:
        assert shown(store, context)[1] == twice(text)
        assert fsck(store) == []


@pytest.mark.of_one_machine("what goes to the packs at once is no delta against what a replica has cut out of entries")
def test_what_waits_in_the_journal_is_built_upon(root: Path) -> None:
    """The first of two edits is journalled, the other one brings so much that it goes to the packs at once."""
    texts = [noise(600 * KIB, seed) for seed in (1, 2)]
    context = begun(root, *map(once, texts))
    before = taken(root)
    with opened(root) as store:
        editor = Editor(store)
        first = edited(texts[0], 0.3)
        editor.edit(context, {1: once(first)})
        assert store.writer.pending.get(hash_bytes(once(first)))
        both = [once(edited(first, 0.7)), once(edited(texts[1], 0.7))]
        editor.edit(context, dict(enumerate(both, 1)))
        assert shown(store, context) == both
    assert taken(root) - before < FEW


def test_a_record_that_is_new_and_edited_at_once_is_there_once(memory_path: Path) -> None:
    root, text = memory_path / "store", noise(300 * KIB)
    context = begun(root, said("Look"))
    before = taken(root)
    with opened(root) as store:
        store.contexts.append(context, once(text), TYPE)
        Editor(store).edit(context, {2: once(edited(text, 0.5))})
        Editor(store).edit(context, {2: once(edited(text, 0.5, 0.7))})
    # two thirds of the text, as it is compressed: once, and hardly more
    assert taken(root) - before < 200 * KIB
    with opened(root) as store:
        assert places(store).count(Compression.DELTA) == 2


def test_all_events_saved_together(memory_path: Path) -> None:
    """As a program does that writes ``events.json``: in another order, some changed, one new."""
    root, texts = memory_path / "store", [noise(200 * KIB, seed) for seed in range(4)]
    context = begun(root, *map(once, texts))
    before = taken(root)
    changed = [once(edited(texts[1], 0.2)), once(edited(texts[3], 0.9))]
    with opened(root) as store:
        Editor(store).rewrite(context, [3, Changed(2, changed[0]), Append(said("New"), TYPE), Changed(4, changed[1])])
        assert shown(store, context) == [once(texts[2]), changed[0], said("New"), changed[1]]
    assert taken(root) - before < LIMIT


def test_each_of_several_strings_is_compared_with_its_own(memory_path: Path) -> None:
    def record(texts: list[bytes]) -> bytes:
        return json.dumps({"type": "user", "results": [text.decode() for text in texts]}).encode()

    root, texts = memory_path / "store", [noise(90 * KIB, seed) for seed in range(6)]
    context = begun(root, record(texts))
    before = taken(root)
    edits = [
        b"in front\n" + edited(texts[0], 0.5),
        texts[1],
        texts[2] + b"\nbehind",
        edited(texts[4], 0.0, 1.0),
        texts[5],
    ]
    with opened(root) as store:
        Editor(store).edit(context, {1: record(edits)})
        assert shown(store, context) == [record(edits)]
    assert taken(root) - before < FEW


def test_what_resembles_nothing_is_stored_whole(memory_path: Path) -> None:
    root = memory_path / "store"
    context = begun(root, once(noise(200 * KIB, 1)))
    with opened(root) as store:
        Editor(store).edit(context, {1: once(noise(200 * KIB, 2))})
        store.checkpointer.flush()
        assert Compression.DELTA not in places(store)
        # little text is packed with its neighbours
        Editor(store).edit(context, {1: once(noise(10 * KIB, 2))})
        Editor(store).edit(context, {1: once(edited(noise(10 * KIB, 2), 0.5))})
        store.checkpointer.flush()
        assert Compression.DELTA not in places(store)


def test_chains_are_short(memory_path: Path) -> None:
    """Each version changes so much that the first one does not resemble it any more."""
    root, text, context = memory_path / "store", noise(200 * KIB, 0), 0
    context = begun(root, once(text))
    depths = []
    with opened(root) as store:
        for number in range(1, 31):
            half = len(text) // 10
            text = text[half:] + b"\n" + noise(half, number)
            Editor(store).edit(context, {1: once(text)})
            store.checkpointer.flush()
            [content] = [blob for blob in _contents(store, context) if blob[1] > 100 * KIB]
            depths.append(len(store.blobs.bases(content[0])))
        assert max(depths) == 8
        assert depths.count(0) < 5
        for version in store.catalogue.versions(context):
            store.contents.payload(version.head)


def _contents(store: Store, context: int) -> list[tuple[bytes, int]]:
    """Return the hashes and sizes of the contents that the head's payload was cut into."""
    taken = cut(store.contents.payload(store.writer.head(context).tip), store.settings.inline_limit_bytes)
    assert taken is not None
    return [(digest, len(content)) for digest, content in taken.contents]


def test_damage_to_what_was_before_damages_what_is_built_upon_it_alone(memory_path: Path) -> None:
    root, text = memory_path / "store", noise(300 * KIB)
    context = begun(root, said("Look"), once(text), said("Thanks"), once(noise(300 * KIB, 2)))
    with opened(root) as store:
        Editor(store).edit(context, {2: once(edited(text, 0.5))})
        store.checkpointer.flush()
        at = next(
            (pack, offset)
            for pack, offset, record in store.files.packs.scan()
            if not isinstance(record, Damage) and record.raw_len == len(text)
        )
        path = store.files.packs.path(at[0])
    data = bytearray(path.read_bytes())
    data[at[1] + 1000] ^= 1
    path.write_bytes(data)
    with Store.open(root, renderer=FileRenderer()) as store:
        turns = [
            turn.turn_id
            for version in store.catalogue.versions(context)
            for turn in store.turns.path_to_root(version.head)
        ]
        found = dict(store.contents.payloads(turns))
        bad = {
            store.turns.get(turn).payload_hash for turn, payload in found.items() if isinstance(payload, DamageError)
        }
        assert len(bad) == 2
        assert sum(isinstance(payload, bytes) for payload in found.values()) == len(found) - 2
        assert {finding.check for finding in fsck(store)} == {"packs", "payloads"}
        # writing it again repairs both
        Editor(store).edit(context, {2: once(text)})
        store.checkpointer.flush()
        assert all(isinstance(payload, bytes) for _turn, payload in store.contents.payloads(turns))


def test_content_that_was_damaged_and_written_again_is_no_delta_against_what_needs_it(memory_path: Path) -> None:
    root, text = memory_path / "store", noise(300 * KIB)
    context = begun(root, once(text))
    with opened(root) as store:
        Editor(store).edit(context, {1: once(edited(text, 0.5))})
    path = root / "blobs" / "00000001.pack"
    data = bytearray(path.read_bytes())
    data[5000] ^= 1
    path.write_bytes(data)
    with Store.open(root, renderer=FileRenderer()) as store:
        with pytest.raises(DamageError):
            store.contents.payload(store.writer.head(context).tip)
        Editor(store).edit(context, {1: once(text)}, action="mend")
        store.checkpointer.flush()
    with Store.open(root, renderer=FileRenderer()) as store:
        assert store.contents.payload(store.writer.head(context).tip) == once(text)
        assert store.contents.payload(store.catalogue.versions(context)[1].head) == once(edited(text, 0.5))


def test_two_that_need_each_other_are_never_made(memory_path: Path) -> None:
    """Content that waits in the journal does not vouch for what is to be packed."""
    root, text = memory_path / "store", noise(300 * KIB)
    changed = edited(text, 0.5)
    with opened(root) as store:
        context = store.contexts.create(metadata={"project": "p", "name": "talk"}).context
        store.contexts.append(context, text, "plain.text")
        Editor(store).edit(context, {1: changed})
    path = root / "blobs" / "00000001.pack"
    data = bytearray(path.read_bytes())
    data[5000] ^= 1
    path.write_bytes(data)
    with Store.open(root, renderer=FileRenderer()) as store:
        for payload in (text, changed):
            with pytest.raises(DamageError):
                store.blobs.blob(hash_bytes(payload))
        # as edits there and back would do it
        fresh = store.contexts.journalled([text], {hash_bytes(text): hash_bytes(changed)})
        fresh += store.contexts.journalled([changed], {hash_bytes(changed): hash_bytes(text)})
        store.writer.submit(
            Request(context, blobs=fresh, turns=[store.contexts.described(Append(changed, "plain.text"))])
        )
        store.checkpointer.flush()
        assert [store.blobs.blob(hash_bytes(payload)) for payload in (text, changed)] == [text, changed]
