"""One machine that archives, and may be killed: ``python -m … REPLICA [OPERATION]``.

It archives all entries but the last, in small segments, leaves out what was dropped, and kills itself before that
operation on the disk. If it comes to its end, it says how many there were.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fusefs.text.render import FileRenderer
from store.errors import Unreachable
from store.settings import Remote
from store.shared import archive, leases
from store.store import Store
from store.upkeep.archiving import Archiving, drops_in
from tests.store.shared.redacting import Countdown, watch

SEGMENT_BYTES = 3000
_PAUSE_SECONDS = 0.02
ALL = Remote(keep_entries=1, keep_hours=0)
"""All entries but the last are old."""


@contextmanager
def always(store: Store) -> Iterator[None]:
    """Archive all entries but the last few, again and again, while the block runs."""
    assert store.replica is not None
    archive.SEGMENT_BYTES = SEGMENT_BYTES
    leases._SECONDS = 1.0
    work, ended = Archiving(store.replica, Remote(keep_entries=3, keep_hours=0)), threading.Event()

    def run() -> None:
        while not ended.wait(_PAUSE_SECONDS):
            # the servers may be away
            with suppress(Unreachable):
                for _pause in work.steps(least=1):
                    pass

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def main() -> None:
    root, last = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    leases._SECONDS = 1.0
    archive.SEGMENT_BYTES = SEGMENT_BYTES
    count = Countdown(last)
    with Store.open(root, renderer=FileRenderer()) as store:
        assert store.replica is not None
        watch(count)
        for _pause in Archiving(store.replica, ALL).steps(least=1, drops=drops_in(store.writer.head_log.frames())):
            pass
        total = count.done
    sys.stdout.write(f"{total}\n")


if __name__ == "__main__":
    main()
