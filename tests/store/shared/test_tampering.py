"""An encrypted space whose servers change what they hold: it is found and named, and nothing of it is applied."""

import os
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from msgspec import structs

from fusefs.text.render import FileRenderer
from store.errors import StoreFailed
from store.shared import entry as entries
from store.shared import remote
from store.shared.ciphertext import seal_entry
from store.shared.connect import connect, enter
from store.shared.entry import Entry
from store.shared.space import Place, membership
from store.store import Store
from store.upkeep.fsck import fsck
from tests.spaces import MAKERS, let_in, spaces


class Operator:
    """A space with two replicas, ``b`` behind ``a``, and all that its operator can do with it."""

    def __init__(self, place: Place, name: str, directory: Path) -> None:
        self.place = place
        self.name = name
        self.directory = directory
        remote.join(place, name, directory / "a", "a")
        let_in(directory / "a", directory / "b", "b")
        with self.open("a") as a:
            self.context = a.contexts.create().context
            a.contexts.append(self.context, b"0", "line")
        with self.open("b") as b:
            self.known = b.writer.seq
        with self.open("a") as a:
            for number in range(1, 4):
                a.intake.put(os.urandom(50_000))
                a.contexts.append(self.context, b"%d" % number, "line")
        with closing(connect(place, name)) as raw:
            self.id = raw.id
            self.entries = list(raw.log.entries(self.known))
            self.objects = sorted(key for key, _length in raw.bucket.list(""))
        assert len(self.entries) == 3
        assert len(self.objects) == 3

    def open(self, name: str) -> Store:
        return Store.open(self.directory / name, renderer=FileRenderer())

    def put(self, entry: Entry) -> None:
        """Put an entry in the place of that behind its ``prev``, with a checksum that holds."""
        if self.place.directory:
            path = Path(self.place.directory) / self.name / "log" / f"{entry.prev:016x}"
            path.write_bytes(entries.encode(entry, self.id))
            return
        columns = "seq = %s, token = %s, machine = %s, generation = %s, packs = %s, chain = %s, body = %s"
        values = (entry.seq, entry.token.hex(), entry.machine, entry.generation, entry.packs, entry.chain, entry.body)
        with psycopg.connect(self.place.postgres, autocommit=True) as connection:
            connection.execute(
                f"UPDATE convfs.entry SET {columns} WHERE space = %s AND prev = %s", (*values, self.id, entry.prev)
            )

    def change(self, number: int, **fields: object) -> None:
        self.put(structs.replace(self.entries[number], **fields))

    def swap_objects(self, first: str, second: str) -> None:
        with closing(connect(self.place, self.name)) as raw:
            data = [raw.bucket.get(key) for key in (first, second)]
            raw.bucket.put(first, data[1])
            raw.bucket.put(second, data[0])

    def flip(self, key: str, at: int) -> None:
        with closing(connect(self.place, self.name)) as raw:
            data = bytearray(raw.bucket.get(key))
            data[at] ^= 4
            raw.bucket.put(key, bytes(data))

    def found_by_b(self, applied: int, named: str) -> None:
        """See that ``b`` takes some commits, and not the next, and says which and why."""
        with self.open("b") as b:
            with pytest.raises(StoreFailed, match=named):
                b.contexts.append(self.context, b"from b", "line")
            assert b.writer.seq == (self.entries[applied - 1].seq if applied else self.known)
            turns = b.contexts.last(self.context, 1000, latest=True)
            said = [bytes(b.blobs.blob(turn.payload_hash)) for turn in turns]
            assert said == [b"%d" % number for number in range(applied + 1)]
            assert [finding for finding in fsck(b) if finding.severity == "error"] == []


@pytest.fixture(params=MAKERS)
def operator(request: pytest.FixtureRequest, memory_path: Path) -> Operator:
    place, name = spaces(request, request.param, memory_path / "server").make()
    return Operator(place, name, memory_path)


found = pytest.mark.logs("of the space|packs/|does not have commit")


@found
def test_two_entries_that_change_places(operator: Operator) -> None:
    first, second = operator.entries[:2]
    operator.change(0, body=second.body)
    operator.change(1, body=first.body)
    operator.found_by_b(0, f"commit {first.seq} of the space was changed, or belongs elsewhere")


@found
def test_two_entries_that_change_places_with_all_that_stands_with_them(operator: Operator) -> None:
    first, second = operator.entries[:2]
    operator.put(structs.replace(second, prev=first.prev, seq=first.seq))
    operator.put(structs.replace(first, prev=second.prev, seq=second.seq))
    operator.found_by_b(0, f"commit {first.seq} of the space was changed, or belongs elsewhere")


@found
def test_an_entry_that_was_left_out(operator: Operator) -> None:
    first, second, third = operator.entries
    operator.put(structs.replace(third, prev=second.prev))
    assert first.seq == second.prev
    if operator.place.directory:
        operator.found_by_b(1, f"commit {third.seq} of the space was changed, or belongs elsewhere")
    else:
        # what comes in one answer is looked at as a whole
        operator.found_by_b(0, f"does not have commit {third.seq}")


@found
@pytest.mark.parametrize("part", ["body", "token", "machine", "generation", "packs"])
def test_a_bit_of_an_entry(operator: Operator, part: str) -> None:
    value = getattr(operator.entries[1], part)
    if isinstance(value, bytes):
        value = bytes((*value[:10], value[10] ^ 1, *value[11:]))
    elif part == "packs":
        # one that it would not wait for
        value -= 1
    else:
        value ^= 1
    operator.change(1, **{part: value})
    operator.found_by_b(1, f"commit {operator.entries[1].seq} of the space")


@found
def test_an_entry_in_plain_text(operator: Operator) -> None:
    operator.change(0, generation=0, body=b"not sealed at all")
    operator.found_by_b(0, f"commit {operator.entries[0].seq} of the space is sealed with key 0")


@found
def test_an_entry_of_another_history(operator: Operator) -> None:
    # one that a member has sealed for the very place, before the space was put back
    member = membership(operator.directory / "a")
    assert member is not None
    space, access = enter(operator.directory / "a", member)
    assert access is not None
    with closing(space):
        plain = list(space.log.entries(operator.known))
        # the same place, the same number, after something else
        generation, key = access.newest
        other = structs.replace(plain[1], chain=bytes(32))
        operator.put(seal_entry(key, generation, operator.id, other))
    # what came before it is the space's
    operator.found_by_b(1, f"commit {plain[1].seq} of the space .* follows another history")


@found
def test_two_objects_that_change_places(operator: Operator) -> None:
    operator.swap_objects(*operator.objects[:2])
    either = "|".join(operator.objects[:2])
    operator.found_by_b(0, f"({either}): frame 0 of this object was changed, or belongs elsewhere")


@found
def test_an_old_object_under_another_key(operator: Operator) -> None:
    with closing(connect(operator.place, operator.name)) as raw:
        last = raw.records.records("pack/")[-1]
        key = last.value.split(b'"')[3].decode()
        older = next(one for one in operator.objects if one != key)
        raw.bucket.put(key, raw.bucket.get(older))
    operator.found_by_b(0, f"{key}: frame 0 of this object was changed, or belongs elsewhere")


@found
@pytest.mark.parametrize("at", [0, 5, 12, 30, 60, -1])
def test_a_bit_of_an_object(operator: Operator, at: int) -> None:
    with closing(connect(operator.place, operator.name)) as raw:
        first = raw.records.records("pack/")[0]
        key = first.value.split(b'"')[3].decode()
    operator.flip(key, at)
    operator.found_by_b(0, key)


@found
def test_an_object_that_was_cut(operator: Operator) -> None:
    with closing(connect(operator.place, operator.name)) as raw:
        key = raw.records.records("pack/")[0].value.split(b'"')[3].decode()
        raw.bucket.put(key, raw.bucket.get(key)[:-100])
    operator.found_by_b(0, f"{key}: this object should have")


def test_without_tampering_all_is_applied(operator: Operator) -> None:
    with operator.open("b") as b:
        b.contexts.append(operator.context, b"from b", "line")
        turns = b.contexts.last(operator.context, 1000, latest=True)
        assert [bytes(b.blobs.blob(turn.payload_hash)) for turn in turns] == [b"0", b"1", b"2", b"3", b"from b"]
