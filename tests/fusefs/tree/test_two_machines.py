"""Two machines of a space, each with its mount: what is saved in one is seen in the other."""

import subprocess
from contextlib import ExitStack
from pathlib import Path

import msgspec

from fusefs.text.render import FileRenderer
from store.importing.importer import Importer
from store.shared import remote
from store.shared.space import Place
from store.store import Store
from tests.fusefs.tree.mounting import PATIENCE, mounted, until
from tests.spaces import let_in


def session(directory: Path) -> Path:
    path = directory / "one.jsonl"
    line = {"type": "user", "sessionId": "one", "cwd": "/shop", "uuid": "u"}
    path.write_bytes(msgspec.json.encode(line | {"message": {"role": "user", "content": "Hello?"}}) + b"\n")
    return path


def test_a_save_is_seen_and_a_transcript_can_be_followed(memory_path: Path, tmp_path: Path) -> None:
    place = Place(str(memory_path / "server"))
    remote.init(place, "team")
    remote.join(place, "team", memory_path / "a", "a")
    with Store.open(memory_path / "a", renderer=FileRenderer()) as store:
        assert Importer(store).run([session(tmp_path)]).imported == 1
    let_in(memory_path / "a", memory_path / "b", "b")
    with ExitStack() as held:
        here, there = (held.enter_context(mounted(memory_path / name)).root for name in "ab")
        [events] = [path.relative_to(here) for path in here.glob("conversations/*/*/events")]
        [transcript] = [path.relative_to(here) for path in here.glob("transcripts/*/*.md")]
        until((there / transcript).exists)
        tail = held.enter_context(
            subprocess.Popen(["tail", "-n", "+1", "-s", "0.1", "-f", there / transcript], stdout=subprocess.PIPE)
        )
        assert tail.stdout is not None
        try:
            while b"Hello?" not in (line := tail.stdout.readline()):
                assert line
            (here / events / "assistant.md").write_text("Hello yourself.\n")
            while b"Hello yourself." not in (line := tail.stdout.readline()):
                assert line
        finally:
            tail.kill()
            tail.wait(PATIENCE)
        [said] = (there / events).glob("*-assistant.md")
        said.write_text("Good day.\n")
        until(lambda: "Good day." in (here / transcript).read_text())
        assert "Good day." in (here / events / said.name).read_text()
