"""The modules that a daemon has loaded while nobody asks for more: each takes memory for as long as it lives."""

import subprocess
import sys
from pathlib import Path

from tests.store.importing.sessions import lines, session

ROOT = Path(__file__).resolve().parents[3]

PROGRAM = """
import sys
from pathlib import Path
import fusefs.cli
from fusefs.cli.libraries import load_fuse, load_msgspec
load_msgspec()
load_fuse()
from fusefs.daemon.calls import ALL_OPERATIONS
from fusefs.text.render import FileRenderer
from store.service.caller import Caller
from store.service.server import Service, serving
from store.store import Store

with (
    Store.open(Path(sys.argv[1]), renderer=FileRenderer()) as store,
    serving(Service(store, ALL_OPERATIONS)) as place,
):
    for job in store.search, store.known_files, store.texts, store.insight:
        while job.step():
            pass
    print(*sys.modules)
    # known to this process from now on, as to a command that asks for it
    from store.service.upkeep import gc
    with Caller(place.socket) as caller:
        print(caller.call(gc(dry_run=True)).bytes)
    print(*sys.modules)
"""

LATE = ("store.importing.importer", "store.redaction", "store.shared.replica", "store.upkeep.thinning")
"""The modules of what few ask for."""
LIBRARIES = ("_hashlib", "configparser", "secrets", "tempfile", "tomllib", "zipfile")


def test_a_daemon_loads_what_few_ask_for_when_they_do(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path], cwd=ROOT, capture_output=True, text=True, timeout=120, check=True
    )
    loaded, collected, then = done.stdout.splitlines()
    names = [f"{name}." for name in loaded.split()]
    assert "store.service.server." in names
    assert [name for name in names if name.startswith(tuple(f"{late}." for late in (*LATE, *LIBRARIES)))] == []
    assert collected == "0"
    assert "store.service.upkeep" in then.split()
    # what collects and files needs nothing of what redacts
    assert not {"store.redaction.redaction", "store.shared.replica", "_hashlib", "zipfile"}.intersection(then.split())


IMPORT = """
import sys
from pathlib import Path
from fusefs.text.render import FileRenderer
from store.formats.registry import FORMATS
from store.importing.importer import Importer
from store.store import Store

with Store.open(Path(sys.argv[1]), renderer=FileRenderer()) as store:
    Importer(store).run([Path(sys.argv[2])])
    while store.search.step():
        pass
    print(store.writer.turns.count, store.search.unfiled, *sys.modules)
    list(FORMATS)
    print(*sys.modules)
"""


def test_what_imports_and_files_loads_neither_openssl_nor_what_reads_archives(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    session(folder, lines("Boil water", "It boils."))
    command = [sys.executable, "-c", IMPORT, tmp_path / "store", folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    filed, formats = done.stdout.splitlines()
    count, unfiled, *loaded = filed.split()
    assert int(count)
    assert unfiled == "0"
    assert "store.formats.claude_code.session" in loaded
    assert not {"_hashlib", "secrets", "zipfile"}.intersection(loaded)
    # a daemon that watches has all of them
    assert not {"_hashlib", "html.entities", "secrets"}.intersection(formats.split())
