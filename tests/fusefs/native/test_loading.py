"""Loading of formats by a mount: it answers before it knows them all, and others meanwhile."""

import subprocess
import sys
from pathlib import Path

from fusefs.text.render import FileRenderer
from store.store import Store

ROOT = Path(__file__).resolve().parents[3]

PROGRAM = """
import sys
from pathlib import Path
from threading import get_ident

from fusefs.text.render import FileRenderer
from fusefs.tree.native.files import NativeDirectory
from fusefs.tree.native.paths import KEY
from fusefs.tree.router import Router
from fusefs.tree.tree import Tree
from fusefs.tree.waiting import Later
from store.store import Store

ALL = {"store.formats.opencode", "store.formats.declared.format"}
SERVICE = {"fusefs.daemon.calls", "store.service.server", "store.redaction.redaction", "store.transfer.giver"}
with Store.open(Path(sys.argv[1]), renderer=FileRenderer()) as store:
    tree = Tree(store)
    router = Router(tree)
    import fusefs.mount
    print(len((ALL | SERVICE) & set(sys.modules)))
    directory = router.node(tree.ino(KEY))
    assert isinstance(directory, NativeDirectory)
    tree.workers.can_wait, tree.workers.loop = True, get_ident()
    try:
        directory.items()
    except Later as later:
        print("later")
        while not later.work.is_done:
            pass
    print(*sorted(directory.items()))
    tree.workers.end()
"""


def test_a_thread_loads_the_formats_once_their_directories_are_looked_at(tmp_path: Path) -> None:
    with Store.open(tmp_path, renderer=FileRenderer()):
        pass
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    )
    loaded, later, tools = done.stdout.splitlines()
    assert (loaded, later) == ("0", "later")
    assert {"claude-code", "copilot-cli", "gemini-cli"} <= set(tools.split())
