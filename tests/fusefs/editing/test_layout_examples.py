"""The examples in ``LAYOUT.md`` of how to write, and of what is looked up, run as they stand there."""

import os
import re
from pathlib import Path

import pytest

from store.importing.importer import Importer
from tests.fusefs.tree.mounting import mounted, new_store

ROOT = Path(__file__).resolve().parent.parent.parent.parent
LAYOUT = (ROOT / "fusefs/LAYOUT.md").read_text(encoding="utf-8")
SHOWN = (
    "The tree",
    "resources/",
    "search/",
    "by-resource/",
    "events.json",
    "context.json",
    "changes.diff",
    "html/",
    "Writing",
    "family.svg, stats.svg and stats.json",
)
"""The sections; where turns are being written, ``test_streaming.py`` writes them."""


@pytest.mark.parametrize("name", SHOWN)
def test_every_gesture_does_what_the_page_shows(store_path: Path, name: str) -> None:
    section = LAYOUT.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    examples = re.findall(r"^```console\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert examples
    with new_store(store_path) as store:
        Importer(store).run([ROOT / "fusefs/cli/demo"])
    with mounted(store_path) as mount:
        for example in examples:
            directory = mount.root
            for step in re.split(r"^\$ ", example, flags=re.MULTILINE)[1:]:
                command, _, output = step.partition("\n")
                done = mount.run("bash", "-c", f"cd '{directory}' && {command}; pwd >&2")
                assert done.stdout == output, command
                directory = Path(done.stderr.splitlines()[-1])
                assert os.path.commonpath([mount.root, directory]) == str(mount.root)
