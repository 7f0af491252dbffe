"""Collecting in a store of a million blobs: in bounded memory, whatever is left over."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from store.commit.request import NewTurn, Request
from store.ids import type_tag
from store.retention.pruner import delete
from store.store import Store

BLOBS, CONTEXTS, AT_ONCE = 1_000_000, 100, 5_000
MOST_BYTES = 300 << 20

COLLECT = """
import resource, sys, time
from pathlib import Path
from store.store import Store
with Store.open(Path(sys.argv[1])) as store:
    began = time.process_time()
    steps = store.collector.steps(grace_seconds=0, least_part=0, dry_run=False)
    try:
        while True:
            next(steps)
    except StopIteration as end:
        done = end.value
    took = time.process_time() - began
    print(done.turns, done.blobs, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, round(took, 1))
"""


@pytest.mark.skipif("CONVFS_LARGE_TESTS" not in os.environ, reason="takes minutes: set CONVFS_LARGE_TESTS=1")
@pytest.mark.timeout(1800)
def test_a_million_blobs(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with Store.open(root) as store:
        contexts = [store.contexts.create().context for _ in range(CONTEXTS)]
        for start in range(0, BLOBS, AT_ONCE):
            load = store.intake.load()
            payloads = [
                b'{"number": %d, "what": "%d times"}' % (number, number**3) for number in range(start, start + AT_ONCE)
            ]
            digests = load.payloads(payloads)
            load.sync()
            turns = [NewTurn(digest, type_tag("test"), 6, 0, 1) for digest in digests]
            store.writer.submit(Request(contexts[start // AT_ONCE % CONTEXTS], turns=turns))
        assert store.files.turns.count == BLOBS
        for context in contexts[::2]:
            delete(store, context, store.writer.head(context).tip)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-c", COLLECT, str(root)]
    for left in (BLOBS // 2, 0):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        turns, blobs, most_kib, _seconds = done.split()
        print(done)
        assert (int(turns), int(blobs)) == (left, left)
        assert int(most_kib) << 10 < MOST_BYTES
