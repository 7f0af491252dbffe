"""A person edits events while a tool goes on to write the session: neither undoes what the other did."""

import json
import os
import random
import threading
import time
from pathlib import Path

from store.importing.exporter import export_native
from store.upkeep.fsck import fsck
from tests.fusefs.tree.mounting import Mounted, mounted, new_store, user

NAME = "0b1f8d5e-7a55-4d0e-9c3d-2f4e6a1b7c90.jsonl"
FIRST = 5
LINES = 600 if os.environ.get("CONVFS_LARGE_TESTS") else 80


class Person(threading.Thread):
    """Edits one of the first events after another; ``wrote`` is what each must say."""

    def __init__(self, mount: Mounted) -> None:
        super().__init__()
        self.wrote: dict[int, str] = {}
        self.enough = threading.Event()
        [self._talk] = (mount.root / "conversations").glob("*/*")
        self._chance = random.Random(1)

    def run(self) -> None:
        times = 0
        while not self.enough.wait(self._chance.uniform(0, 0.05)):
            times += 1
            number = self._chance.randrange(FIRST) + 1
            said = f"Edited {times}." + "e" * self._chance.randrange(300)
            (self._talk / f"events/{number:05}-user.md").write_text(said + "\n")
            self.wrote[number] = said


def test_a_person_and_a_tool_at_once(store_path: Path) -> None:
    with new_store(store_path):
        pass
    chance = random.Random(2)
    said = [f"Line {number}." for number in range(LINES)]
    with mounted(store_path) as mount:
        file = mount.root / ".convfs/native/claude-code/-work" / NAME
        file.parent.mkdir()
        file.write_text("".join(user(f"First {number}.", number) + "\n" for number in range(FIRST)))
        person = Person(mount)
        person.start()
        stream = os.open(file, os.O_WRONLY | os.O_APPEND)
        for number, text in enumerate(said):
            line = user(text, number).encode() + b"\n"
            if number % 3 == 0:
                with file.open("ab") as opened:
                    opened.write(line)
                continue
            cut = chance.randrange(len(line))
            for piece in (line[:cut], line[cut:]):
                assert os.write(stream, piece) == len(piece)
                time.sleep(chance.choice([0, 0, 0.01]))
        os.close(stream)
        person.enough.set()
        person.join()
        content = file.read_bytes()
        found = [json.loads(line)["message"]["content"] for line in content.splitlines()]
        assert found[FIRST:] == said
        assert {number: found[number - 1] for number in person.wrote} == person.wrote
        assert len(person.wrote) > 1
    with new_store(store_path) as store:
        assert fsck(store) == []
        [exported] = export_native(store, store.library.conversations()[0], store_path.parent / "out")
        assert exported.read_bytes() == content
