"""The examples in ``LAYOUT.md`` of how to write, and of what is looked up, run as they stand there."""

import os
import re
from itertools import chain
from pathlib import Path

from store.importing.importer import Importer
from tests.fusefs.tree.mounting import mounted, new_store

ROOT = Path(__file__).resolve().parent.parent.parent.parent
LAYOUT = (ROOT / "fusefs/LAYOUT.md").read_text(encoding="utf-8")
SHOWN = ("search/", "by-resource/", "Writing")
SECTIONS = [LAYOUT.partition(f"\n## {name}\n")[2].partition("\n## ")[0] for name in SHOWN]
EXAMPLES = [re.findall(r"^```console\n(.*?)^```$", section, re.MULTILINE | re.DOTALL) for section in SECTIONS]


def test_every_gesture_does_what_the_page_shows(store_path: Path) -> None:
    with new_store(store_path) as store:
        Importer(store).run([ROOT / "fusefs/cli/demo"])
    assert all(EXAMPLES)
    with mounted(store_path) as mount:
        for example in chain(*EXAMPLES):
            directory = mount.root
            for step in re.split(r"^\$ ", example, flags=re.MULTILINE)[1:]:
                command, _, output = step.partition("\n")
                done = mount.run("bash", "-c", f"cd '{directory}' && {command}; e=$?; pwd >&2; exit $e")
                assert done.stdout == output, command
                directory = Path(done.stderr.splitlines()[-1])
                assert os.path.commonpath([mount.root, directory]) == str(mount.root)
