"""Conversations larger than memory ought to be: exported by a process that never takes much.

A normal run uses 60 MB; with CONVFS_LARGE_TESTS set, 2 GB, and a record of 200 MB in it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.store.importing.sessions import line, session
from tests.store.importing.test_large import MOST_MIB, ROOT, disk, large

__all__ = ["disk"]

RUN = """
import sys
from pathlib import Path
from fusefs.text.render import FileRenderer
from store.exporting.export import export
from store.importing.importer import Importer
from store.store import Store

root, path, out = map(Path, sys.argv[1:4])
with Store.open(root, renderer=FileRenderer()) as store:
    assert Importer(store).run([path]).errors == []
    for form in sys.argv[4:]:
        done = export(store, store.library.conversation(1), out / form, form)
        status = Path("/proc/self/status").read_text()
        lost = [loss.what for loss in done.lost]
        written = sum(path.stat().st_size for path in done.files)
        print(form, int(status.partition("VmHWM:")[2].split()[0]) // 1024, written)
        assert lost == [] or "too large" in " ".join(lost), lost
"""


def talk(path: Path, size: int, longest: int) -> int:
    """Write a session of about ``size`` bytes with one line of ``longest``; return how many lines it has."""
    written = number = 0
    with path.open("wb") as file:
        while written < size:
            words = "".join(f"word{number * 7 + at} " for at in range(2000))
            data = line(words, number) + b"\n"
            if longest and number == 11:
                data = json.dumps(json.loads(data) | {"filler": "x" * longest}).encode() + b"\n"
            file.write(data)
            written += len(data)
            number += 1
    return number


@pytest.mark.timeout(1300)
@pytest.mark.parametrize(("size", "longest"), [(60 << 20, 0), pytest.param(2 << 30, 200 << 20, marks=large)])
def test_memory_is_bounded(disk: Path, size: int, longest: int) -> None:
    path = session(disk, b"")
    talk(path, size, longest)
    forms = ["json", "html", "anthropic", "codex", "jp"]
    done = subprocess.run(
        [sys.executable, "-c", RUN, disk / "store", path, disk / "out", *forms],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    rows = [row.split() for row in done.stdout.splitlines()]
    assert [row[0] for row in rows] == forms
    print(done.stdout)
    for _form, peak, written in rows:
        # without the record that is too large for all but the native form
        assert int(written) > (size - longest) * 0.9
        assert int(peak) < MOST_MIB
