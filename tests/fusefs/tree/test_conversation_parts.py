"""Resources, earlier versions and records of a conversation, as programs see them."""

import json
import os
from pathlib import Path

import pytest

from store.importing.importer import Importer
from tests.fusefs.tree.mounting import TALK, add, mounted, new_store, stamp, until, user


def file_read(path: str, content: str, second: int) -> list[str]:
    """Return the lines in which the model reads a file and gets it."""
    call = {"type": "tool_use", "id": f"t{second}", "name": "Read", "input": {"file_path": path}}
    result = {"tool_use_id": f"t{second}", "type": "tool_result", "content": f"     1→{content}"}
    detail = {"type": "text", "file": {"filePath": path, "content": content, "numLines": 1, "startLine": 1}}
    return [
        json.dumps({"type": "assistant", "message": {"role": "assistant", "content": [call]}, "uuid": f"c{second}"}),
        json.dumps(
            {
                "type": "user",
                "message": {"role": "user", "content": [result]},
                "toolUseResult": detail,
                "uuid": f"r{second}",
                "timestamp": stamp(second),
            }
        ),
    ]


def test_resources_are_files_at_the_paths_of_their_uris(store_path: Path) -> None:
    with new_store(store_path) as store:
        lines = [
            user("look", 1),
            *file_read("/home/dev/src/main.py", "print(1)\n", 2),
            *file_read("/home/dev/notes.txt", "notes\n", 3),
            *file_read("/home/dev/src/main.py", "print(2)\n", 4),
        ]
        add(store, lines)
    with mounted(store_path) as mount:
        resources = mount.root / TALK / "resources"
        found = {str(path.relative_to(resources)): path.read_text() for path in resources.rglob("*") if path.is_file()}
        assert found == {
            "home/dev/src/main.py": "print(2)\n",
            "home/dev/src/main@00003.py": "print(1)\n",
            "home/dev/notes.txt": "notes\n",
        }
        main = resources / "home/dev/src/main.py"
        unlisted = main.with_name("main@00007.py")
        assert unlisted.read_text() == "print(2)\n"
        assert unlisted.stat().st_ino == main.stat().st_ino
        assert not main.with_name("main@00005.py").exists()
        assert os.getxattr(main, "user.convfs.event") == b"7"
        assert os.getxattr(main, "user.convfs.uri").endswith(b"/home/dev/src/main.py")
        digest = os.getxattr(main, "user.convfs.hash").decode()
        assert len(digest) == 64
        assert (resources / "home").stat().st_nlink == 3
        assert (resources / "home/dev").stat().st_nlink == 3
        # what the name held before is not shown for what it holds now
        assert mount.shell(f"cat {TALK}/resources/home/dev/src/main.py") == "print(2)\n"
        mount.tell(append=[1, file_read("/home/dev/src/main.py", "print(333)\n", 5)])
        until(lambda: main.read_text() != "print(2)\n")
        assert main.read_text() == "print(333)\n"
        assert main.with_name("main@00007.py").read_text() == "print(2)\n"


def test_every_import_is_a_version_and_stays_one(store_path: Path, tmp_path: Path) -> None:
    session = tmp_path / "session.jsonl"
    lines = [user(f"message {number}", number) for number in range(8)]
    session.write_text("".join(line + "\n" for line in lines[:3]))
    with new_store(store_path) as store:
        Importer(store).run([session])
        session.write_text("".join(line + "\n" for line in lines))
        Importer(store).run([session])
    with mounted(store_path) as mount:
        (talk,) = mount.root.glob("conversations/*/*")
        versions = talk / ".versions"
        first, second = sorted(os.listdir(versions))
        assert first.startswith("0001-")
        assert first.endswith("-import")
        assert second.startswith("0002-")
        assert sorted(os.listdir(versions / first)) == sorted(os.listdir(talk))
        assert len(os.listdir(versions / first / "events")) == 3
        assert len(os.listdir(versions / second / "events")) == len(os.listdir(talk / "events")) == 8
        for version, count in ((first, 3), (second, 8)):
            listed = json.loads((versions / version / "events.json").read_bytes())
            assert [element["$event"] for element in listed] == list(range(1, count + 1))
            records = [path.read_text() for path in sorted((versions / version / ".records").iterdir())]
            assert records == lines[:count]
        old = versions / first / "events" / "00002-user.md"
        new = talk / "events" / "00002-user.md"
        assert old.read_bytes() == new.read_bytes()
        assert old.stat().st_ino != new.stat().st_ino
        assert not (versions / first / ".versions").exists()
        assert not (versions / first.removesuffix("-import")).exists()
        assert not (versions / "0001").exists()
        for directory in (versions, versions / first, versions / first / "events"):
            above = os.stat(directory.parent).st_ino
            assert mount.shell(f"stat -c %i '{directory}/..'").strip() == str(above)
        assert mount.run("find", str(versions), "-type", "f").returncode == 0


@pytest.mark.parametrize("count", [1, 300])
def test_records_are_the_bytes_that_were_written(store_path: Path, count: int) -> None:
    lines = [f'{{"type":"odd", "n": 1e{number}, "dup": 1, "dup": 2}}' for number in range(count)]
    with new_store(store_path) as store:
        add(store, lines)
    with mounted(store_path) as mount:
        records = mount.root / TALK / ".records"
        assert [(records / name).read_text() for name in sorted(os.listdir(records))] == lines
        assert mount.shell(f"cat {TALK}/.records/*").count("dup") == 2 * count
        for name in ("1.json", "00000.json", f"{count + 1:05}.json", "00001.txt", "000001.json", "-0001.json"):
            assert not (records / name).exists()
