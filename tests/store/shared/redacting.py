"""One machine of a redaction in a space, which may be killed: ``python -m … redact|follow REPLICA [OPERATION]``.

It opens the replica and redacts, or applies what another machine has redacted, and kills itself before that operation
on the disk. If it comes to its end, it says how many there were.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from fusefs.text.render import FileRenderer
from store.disk import durable
from store.redaction.redaction import Redaction
from store.redaction.secrets import Secrets
from store.shared import leases
from store.store import Store

SECRET = b"correct horse battery staple"
SECRETS = Secrets([SECRET])
OPERATIONS = ("pwrite_all", "fdatasync", "replace", "remove", "link", "truncate", "overwrite", "sync_directory")


def watch(before: Callable[[], None]) -> None:
    """Have ``before`` called before each operation on the disk, of any thread."""

    def watched(operation: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            before()
            return operation(*arguments, **named)

        return call

    for name in OPERATIONS:
        setattr(durable, name, watched(getattr(durable, name)))


class Countdown:
    """A count of the operations on the disk, which kills this process before one of them; before none if it is 0."""

    def __init__(self, last: int) -> None:
        self.done = 0
        self._last = last
        self._counting = threading.Lock()

    def __call__(self) -> None:
        with self._counting:
            self.done += 1
            if self.done == self._last:
                os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    what, root, last = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0
    leases._SECONDS = 1.0
    count = Countdown(last)
    if what == "follow":
        watch(count)
    with Store.open(root, renderer=FileRenderer()) as store:
        assert store.replica is not None
        if what == "redact":
            watch(count)
            Redaction(store, SECRETS).run()
        while not store.replica.generation or store.replica.redactions.owes:
            time.sleep(0.01)
    sys.stdout.write(f"{count.done}\n")


if __name__ == "__main__":
    main()
