"""A process that does what it is told to a store, until it is killed: ``python -m tests.everything.worker STORE``.

Each line that it reads is a step as JSON; each line that it writes says that the next step has been done, or what was
raised. Work of the background goes on meanwhile. It answers at a socket, too.
"""

import sys
import traceback
from pathlib import Path

import msgspec

from fusefs.text.render import FileRenderer
from store.commit import checkpointer, intake
from store.disk.pack import PackSet
from store.service.server import Service, serving
from store.service.upkeep import UPKEEP
from store.store import Store
from store.upkeep import recovery
from tests.everything.background import Background
from tests.everything.expected import Step
from tests.everything.steps import do


def shrink() -> None:
    """Make everything that is done when something is full be done in a short life."""
    recovery.JOURNAL_BYTES = 64 << 10
    recovery.JOURNALS = 3
    checkpointer._IDLE_SECONDS = 0.02
    intake._CHUNKED_BYTES = 100_000
    checkpointer._FEWEST_TURNS = 60
    checkpointer._FEWEST_BYTES = 5000
    PackSet.__init__.__defaults__ = (128 << 10,)


def main(root: str) -> None:
    shrink()
    with (
        Store.open(Path(root), renderer=FileRenderer()) as store,
        serving(Service(store, UPKEEP)),
        Background(store) as background,
    ):
        answer("opened")
        for line in sys.stdin:
            step = msgspec.json.decode(line, type=Step)
            try:
                if not background.do(step):
                    do(store, step)
                answer("done")
            except Exception:
                answer(traceback.format_exc())
        background.wait()
    answer("closed")


def answer(text: str) -> None:
    sys.stdout.write(msgspec.json.encode(text).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
