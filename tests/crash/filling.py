"""Uses a store on a disk that others fill and empty while the background works; says what is wrong with it.

Run as a process of its own, ``python -m tests.crash.filling STORE SEED``: what was wrong once ended the process.
"""

from __future__ import annotations

import os
import random
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

from fusefs.text.render import FileRenderer
from store.commit import checkpointer
from store.errors import ConvfsError, StoreFull
from store.ids import hash_bytes
from store.store import Store
from store.upkeep import recovery
from store.upkeep.fsck import fsck
from tests.model import Model

JOURNAL_BYTES = 96 << 10
JOURNALS = 3
STEPS = 120
LEFT = (0, 0, 4096, 60_000, 300_000, 1 << 20)
"""The bytes of the disk that others leave."""
PUT_BYTES = 2 << 20
"""The most that large blobs take: what the store itself fills is no room when others leave."""
ROOM_SECONDS = 20.0
WORD = "zebra"
LIMITED = "--limited"


class Filling:
    """A store, what was acknowledged of it, and the file that fills its disk."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self.filler = root.parent / ("limited" if LIMITED in sys.argv else "full")
        self.random = random.Random(seed)
        self.model = Model()
        self.number = 0
        self.put_bytes = 0
        self.refused = 0
        self.store = self.open()

    @property
    def limited(self) -> bool:
        """Whether it is a limit of this process that leaves no room, instead of others."""
        return self.filler.name == "limited"

    def open(self) -> Store:
        return Store.open(self.root, renderer=FileRenderer())

    # -- the disk ------------------------------------------------------------------------------------------------------

    def fill(self, left: int) -> None:
        """Leave so many bytes of the disk; or none behind those that files have by now, and what comes behind."""
        if self.limited:
            resource.setrlimit(resource.RLIMIT_FSIZE, (left // 8, resource.RLIM_INFINITY))
            return
        with self.filler.open("ab", buffering=0) as file:
            while free := os.statvfs(self.root).f_bavail:
                file.write(bytes(free * 4096))
        os.truncate(self.filler, max(self.filler.stat().st_size - left, 0))

    def free(self) -> None:
        """Leave all of it."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        self.filler.unlink(missing_ok=True)

    # -- what is done --------------------------------------------------------------------------------------------------

    def payload(self) -> bytes:
        self.number += 1
        text = f"{WORD} {self.number} " + "".join(
            self.random.choices("abcdefgh ", k=self.random.choice((20, 900, 9000)))
        )
        return b'{"number":%d,"text":"%s"}' % (self.number, text.encode())

    def create(self) -> None:
        metadata: dict[str, object] = {"project": "p", "name": f"n{self.number}-{len(self.model.heads)}"}
        context = self.store.contexts.create(metadata=metadata).context
        self.model.heads[context] = 0
        self.model.metadata[context] = metadata

    def append(self) -> None:
        if not self.model.heads:
            self.create()
        context = self.random.choice(list(self.model.heads))
        payload = self.payload()
        turn = self.store.contexts.append(context, payload, "test.v1")
        self.model.append(context, turn, payload, "test.v1")

    def append_many(self) -> None:
        for _ in range(20):
            self.append()

    def put(self) -> None:
        data = self.random.randbytes(self.random.choice((10_000, 400_000)) if self.put_bytes < PUT_BYTES else 1000)
        # what is refused may be in a pack already
        self.put_bytes += len(data)
        self.store.intake.put(data)
        self.model.blobs[hash_bytes(data)] = data

    def search(self) -> None:
        search = self.store.search
        for _ in range(self.random.randrange(5)):
            search.step()
        found = {hit.conversation.id for hit in search.run(WORD, 100_000)}
        assert found == {context for context, head in self.model.heads.items() if head}, "a search misses something"

    def count(self) -> None:
        insight = self.store.insight
        insight.count()
        assert insight.report().counted_turns == len(self.model.turns), "turns are not counted"

    def collect(self) -> None:
        for _ in self.store.collector.steps(grace_seconds=3600, dry_run=False):
            pass

    def seal(self) -> None:
        for _ in self.store.sealer.steps():
            pass

    def list(self) -> None:
        named = {str(metadata["name"]) for metadata in self.model.metadata.values()}
        assert {entry.name for entry in self.store.catalogue.page("p")} == named, "a listing misses something"

    def read(self) -> None:
        self.model.check(self.store)
        for context in self.model.heads:
            head = self.store.library.conversation(context).head
            rows = [row for row in (self.store.records.row(head, number) for number in (1, 2)) if row is not None]
            for _row, event in self.store.viewer.events(rows):
                assert not isinstance(event, ConvfsError), event

    def reopen(self) -> None:
        self.store.close()
        self.store = self.open()

    # -- all of it -----------------------------------------------------------------------------------------------------

    def tried(self, what: Callable[[], None]) -> None:
        """Do what a full disk may refuse."""
        try:
            what()
        except StoreFull as error:
            self.refused += 1
            if str(self.root) not in str(error) or "free space" not in str(error):
                raise ValueError(f"this says neither where nor what to do: {error}") from error

    def run(self) -> None:
        writes = (self.append, self.append, self.append_many, self.append_many, self.create, self.put)
        if self.limited:
            # beside a limit for every file, nothing new can be made anywhere
            self.search()
            self.count()
        works = (self.store.checkpointer.flush, self.collect, self.seal)
        for _ in range(STEPS):
            if self.random.random() < 0.3:
                self.random.choice((self.free, lambda: self.fill(self.random.choice(LEFT))))()
            what = self.random.choice(writes + writes + works)
            self.tried(what)
            if self.random.random() < 0.1:
                time.sleep(0.05)
            if self.random.random() < 0.25:
                # whatever is free: these need none
                self.random.choice((self.read, self.search, self.list, self.count))()
        self.fill(0)
        self.read()
        self.search()
        self.list()
        self.free()
        until = time.monotonic() + ROOM_SECONDS
        while True:
            before = self.refused
            self.tried(self.append)
            self.tried(self.store.checkpointer.flush)
            if self.refused == before:
                break
            free = os.statvfs(self.root).f_bavail * 4096
            assert time.monotonic() < until, f"{free} bytes are free, and nothing is taken"
        assert not self.store.files.index.db.held
        self.read()
        self.search()
        self.store.close()
        with self.open() as self.store:
            self.read()
            assert fsck(self.store) == []


def main() -> None:
    """Run it once."""
    recovery.JOURNAL_BYTES, recovery.JOURNALS = JOURNAL_BYTES, JOURNALS
    checkpointer._RETRY_SECONDS = checkpointer._IDLE_SECONDS = 0.02
    one = Filling(Path(sys.argv[1]), int(sys.argv[2]))
    one.run()
    print(len(one.model.turns), one.refused, flush=True)


if __name__ == "__main__":
    main()
