"""A replica whose logs are put back, and that may be killed meanwhile: ``python -m … REPLICA [OPERATION]``.

It kills itself before that operation on the disk. If it comes to its end, it says how many there were.
"""

import sys
from pathlib import Path

from fusefs.text.render import FileRenderer
from store.store import Store
from store.upkeep.log_repair import put_logs_back
from tests.store.shared.redacting import Countdown, watch


def main() -> None:
    root, last = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    count = Countdown(last)
    watch(count)
    assert put_logs_back(root)
    Store.open(root, renderer=FileRenderer(), reindex=True).close()
    sys.stdout.write(f"{count.done}\n")


if __name__ == "__main__":
    main()
