"""Sizes that a store tells."""

import subprocess
from pathlib import Path

from fusefs.text.render import FileRenderer
from store.conversations.contexts import Append
from store.store import Store


def test_counts_and_sizes(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store", renderer=FileRenderer()) as store:
        context = store.contexts.create(metadata={"project": "p", "name": "n"}).context
        payloads = [b'{"type":"user","text":"%d%s"}' % (number, b"x" * 3000) for number in range(5)]
        store.contexts.append_many(context, [Append(payload, "x.v1") for payload in payloads])
        store.contexts.create()
        store.intake.put(b"a blob")
        store.library.conversations()
        store.checkpointer.flush()
        stats = store.stats()
        assert (stats.conversations, stats.events, stats.turns) == (1, 5, 5)
        assert stats.payload_bytes == sum(map(len, payloads))
        # five skeletons, five strings, and the one
        assert stats.blobs == 11
        assert stats.total_bytes >= stats.pack_bytes + stats.log_bytes + stats.index_bytes > 0
    with Store.open(tmp_path / "store") as store:
        du = subprocess.run(["du", "-B1", "-s", str(store.root)], capture_output=True, text=True, check=True)
        directories = sum(path.stat().st_blocks * 512 for path in [store.root, *store.root.rglob("*")] if path.is_dir())
        assert store.stats().total_bytes == int(du.stdout.split()[0]) - directories
