"""A machine that appends to a context of its own in a space until it is killed.

``python -m … REPLICA NAME FIRST [archiving]``: with the last, it archives what others and itself have appended, but the
last few entries, again and again. Says the number of each append on standard output, once that has been acknowledged.
"""

import sys
import time
from contextlib import nullcontext
from pathlib import Path

from store.errors import NotFound, Unreachable
from store.store import Store
from tests.store.shared.archiving import always

EVERY = 29
"""Each append of so many has content that goes through packs."""


def content(name: str, number: int) -> bytes:
    line = f'"{name} {number}"'.encode()
    return line if number % EVERY else line.ljust(1_200_000, b" ")


def own_context(store: Store, name: str) -> int:
    found = store.catalogue.by_name("machines", name)
    return found.id if found else store.contexts.create(metadata={"project": "machines", "name": name}).context


def main() -> None:
    root, name, first = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    archiving = sys.argv[4:] == ["archiving"]
    with Store.open(root) as store, always(store) if archiving else nullcontext():
        number = first
        while True:
            try:
                context = own_context(store, name)
                store.contexts.append(context, content(name, number), "line", idempotency_key=b"%d" % number)
            except Unreachable:
                # the same once more: the key tells whether it was done
                time.sleep(0.02)
                continue
            except NotFound as error:
                sys.exit(str(error))
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()
            number += 1


if __name__ == "__main__":
    main()
