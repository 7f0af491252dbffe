"""Two machines of a space, each with its mount: what is saved in one is seen in the other."""

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
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


@contextmanager
def two_mounts(directory: Path, imported: Path) -> Iterator[tuple[Path, Path]]:
    """Give the mounts of two replicas that have a session."""
    place = Place(str(directory / "server"))
    remote.init(place, "team")
    remote.join(place, "team", directory / "a", "a")
    with Store.open(directory / "a", renderer=FileRenderer()) as store:
        assert Importer(store).run([session(imported)]).imported == 1
    let_in(directory / "a", directory / "b", "b")
    with mounted(directory / "a") as here, mounted(directory / "b") as there:
        yield here.root, there.root


def test_a_save_is_seen_and_a_transcript_can_be_followed(memory_path: Path, tmp_path: Path) -> None:
    with ExitStack() as held:
        here, there = held.enter_context(two_mounts(memory_path, tmp_path))
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


def test_saves_to_different_events_at_once_are_all_kept(memory_path: Path, tmp_path: Path) -> None:
    with two_mounts(memory_path, tmp_path) as mounts, ThreadPoolExecutor(2) as programs:
        here, there = mounts
        [events] = here.glob("conversations/*/*/events")
        for text in ("Two", "Three", "Four"):
            (events / "user.md").write_text(f"{text}\n")
        own = (events / "00001-user.md", there / events.relative_to(here) / "00002-user.md")
        gone = events / "00003-user.md"
        until((there / events.relative_to(here) / "00004-user.md").exists)
        gone.unlink()

        def save(file: Path, round_: int) -> None:
            with file.open("a") as opened:
                opened.write(f" {round_}\n")

        for round_ in range(12):
            list(programs.map(save, own, (round_, round_)))
        said = "".join(f" {round_}\n" for round_ in range(12))
        for file in own:
            for root in mounts:
                until(lambda: (root / file.relative_to(file.parents[4])).read_text().endswith(said))  # noqa: B023
        for root in mounts:
            until(lambda: not (root / gone.relative_to(here)).exists())  # noqa: B023
            assert not list((root / ".convfs/errors").iterdir())
