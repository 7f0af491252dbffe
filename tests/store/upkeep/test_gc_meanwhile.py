"""Collecting while others write what was garbage until a moment ago: nothing that is named is ever lost."""

import os
import random
import threading
import time
from pathlib import Path

from store.commit.request import NewTurn, Request
from store.disk.turn_format import Encoding
from store.editing.editor import Editor
from store.ids import hash_bytes, type_tag
from store.retention.pruner import delete
from store.store import Store
from store.upkeep.fsck import fsck

SECONDS = 60.0 if "CONVFS_LARGE_TESTS" in os.environ else 2.0
WRITERS, TEXTS, MOST = 3, 40, 12


def payload(number: int) -> bytes:
    words = " ".join(f"word{number * at}" for at in range(300))
    return f'{{"type": "user", "number": {number}, "text": "{words}"}}'.encode()


class Writer:
    """Makes conversations of few texts, which others write, too, by loads and by the journal; and deletes them."""

    def __init__(self, store: Store, number: int) -> None:
        self.store = store
        self.source = random.Random(number)
        self.mine: dict[int, list[bytes]] = {}
        self.ended = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.ended.is_set():
                self.step()
        except BaseException as error:
            self.error = error

    def step(self) -> None:
        store, source = self.store, self.source
        if len(self.mine) >= MOST or (self.mine and source.random() < 0.3):
            context = source.choice(list(self.mine))
            del self.mine[context]
            delete(store, context, store.writer.head(context).tip)
            return
        payloads = [payload(source.randrange(TEXTS)) for _ in range(source.randint(1, 4))]
        context = store.contexts.create().context
        if source.random() < 0.7:
            load = store.intake.load()
            digests = load.payloads(payloads)
            # a long time, as an import takes it
            time.sleep(source.random() / 100)
            load.sync()
            turns = [NewTurn(digest, type_tag("test"), Encoding.JSON, 0, 1) for digest in digests]
            store.writer.submit(Request(context, turns=turns, types=store.writer.types_for(["test"])))
        else:
            for one in payloads:
                store.contexts.append(context, one, "test")
        self.mine[context] = payloads
        if source.random() < 0.3:
            payloads[0] = payload(source.randrange(TEXTS))
            Editor(store).edit(context, {1: payloads[0]})
        if source.random() < 0.2:
            self.mine[store.contexts.fork(context).context] = list(payloads)


def test_nothing_is_lost_that_was_garbage_a_moment_ago(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with Store.open(root) as store:
        writers = [Writer(store, number) for number in range(WRITERS)]
        threads = [threading.Thread(target=writer.run) for writer in writers]
        for thread in threads:
            thread.start()
        until = time.monotonic() + SECONDS
        swept = freed = 0
        try:
            while swept < 5 or time.monotonic() < until:
                steps = store.collector.steps(grace_seconds=0, least_part=0, dry_run=False)
                try:
                    while True:
                        next(steps)
                except StopIteration as end:
                    freed += end.value.blobs
                    swept += 1
                if swept % 3 == 0:
                    for _pause in store.sealer.steps():
                        pass
        finally:
            for writer in writers:
                writer.ended.set()
            for thread in threads:
                thread.join()
        assert [writer.error for writer in writers] == [None] * WRITERS
        assert freed > 0
        store.checkpointer.flush()
    with Store.open(root) as store:
        for writer in writers:
            for context, payloads in writer.mine.items():
                turns = store.contexts.last(context, 10)
                assert [turn.payload_hash for turn in turns] == [hash_bytes(one) for one in payloads]
                assert [store.contents.payload(turn.turn_id) for turn in turns] == payloads
        assert fsck(store) == []
