"""The modules that a mount has loaded when it answers its first request: others are loaded when they are needed."""

import subprocess
import sys
from pathlib import Path

from tests.fusefs.tree.mounting import PATIENCE, REPOSITORY, add, new_store, user

PROGRAM = """
import os, signal, subprocess, sys, threading
from pathlib import Path
import fusefs.cli
from fusefs.cli.libraries import load_fuse, load_msgspec
load_msgspec()
load_fuse()
from fusefs.mount import run
from fusefs.text.late import late_renderer
from store.store import Store

def look():
    listed = subprocess.run(["ls", "-f", sys.argv[2]], capture_output=True, text=True)
    modules = list(sys.modules)
    print(*listed.stdout.split())
    print(*modules)
    os.kill(os.getpid(), signal.SIGTERM)

with Store.open(Path(sys.argv[1]), renderer=late_renderer()) as store:
    run(store, Path(sys.argv[2]), ready=threading.Thread(target=look).start)
"""

LATE = {
    # searching
    *("store.search", "store.backlinks"),
    # putting sessions together, importing and exporting them
    *("store.importing.assembly", "store.importing.drop", "store.importing.group", "store.importing.session"),
    *("store.delivery", "store.exporting.dialogue", "store.exporting.messages"),
    *("store.formats.claude_code", "store.formats.codex", "store.formats.pages"),
    # what serves others
    *("fusefs.daemon", "store.redaction", "store.retention", "store.service.server", "store.transfer", "store.web"),
    *("store.shared.replica", "store.upkeep.gc", "store.upkeep.rewrite", "store.upkeep.sealer"),
    # what libraries load, and needs long
    *("_hashlib", "asyncio", "ctypes.util", "email", "hmac", "http", "idna", "importlib.metadata", "ssl"),
    *("bz2", "csv", "lzma", "shutil", "tempfile", "typing_extensions", "zipfile"),
    *("cbor2", "cryptography", "markdown_it", "msgpack", "obstore", "psycopg", "pygments", "rfc8785", "rich"),
}
"""Modules that a mount loads later, or never, each with all below it."""


def test_a_mount_answers_before_it_loads_what_listings_do_not_need(store_path: Path, mountpoint: Path) -> None:
    with new_store(store_path) as store:
        add(store, [user("hello")])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, store_path, mountpoint],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    listed, loaded = (set(line.split()) for line in done.stdout.splitlines())
    assert {"conversations", "README.md"} <= listed
    assert {"pyfuse3", "trio", "fusefs.tree.router"} <= loaded
    assert {one for one in loaded if any(f"{one}.".startswith(f"{late}.") for late in LATE)} == set()
