"""A mounted replica: contents that only the space has are fetched by threads, and the mount goes on meanwhile."""

import errno
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from fusefs.text.render import FileRenderer
from store import paths
from store.importing.importer import Importer
from store.shared import remote
from store.shared.space import Place
from store.store import Store
from tests.fusefs.tree.mounting import add, errno_of, mounted, user
from tests.proxy import Proxy
from tests.servers import S3, Postgres
from tests.spaces import let_in, until
from tests.store.worktree.test_changes import ROSES, Talk

SESSIONS = 6


def convfs(store: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run a command on a store."""
    command = [Path(sys.executable).with_name("convfs"), "--store", store, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def sessions(directory: Path) -> list[Path]:
    """Write sessions of a MB each that compress badly."""
    paths = []
    for number in range(SESSIONS):
        text = random.Random(number).randbytes(700_000).hex()
        line = {"type": "user", "sessionId": f"s{number}", "cwd": "/shop", "uuid": "u"}
        lines = [line | {"message": {"role": "user", "content": said}} for said in (f"Question {number}?", text)]
        paths.append(directory / f"s{number}.jsonl")
        paths[-1].write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in lines))
    return paths


@contextmanager
def far_away(
    postgres: Postgres, s3: S3, directory: Path, name: str, files: Sequence[Path]
) -> Iterator[tuple[Path, Proxy]]:
    """Give a replica that has read nothing of the files that another has imported, and its line to the bucket."""
    place = Place(postgres=postgres.url(), objects=s3.url)
    remote.init(place, name)
    a, b = directory / "a", directory / "b"
    remote.join(place, name, a, "a")
    with Store.open(a, renderer=FileRenderer()) as store:
        assert Importer(store).run(files).imported == len(files)
    with Proxy(s3.port) as line:
        let_in(a, b, "b", structs.replace(place, objects=s3.url.replace(f":{s3.port}", f":{line.port}")))
        yield b, line


@pytest.mark.logs("is not here|cannot be reached", sometimes=True)
def test_a_search_says_what_it_could_not_look_at(postgres: Postgres, s3: S3, memory_path: Path, tmp_path: Path) -> None:
    with far_away(postgres, s3, memory_path, "searched", sessions(tmp_path)) as (b, line):
        with Store.open(b, renderer=FileRenderer()):
            # it knows of all, and has read nothing
            pass
        line.cut()
        asked = ["search", "role:user Question"], ["grep", "Question 3"]
        for words in asked:
            done = convfs(b, *words)
            assert (done.returncode, done.stdout) == (1, "")
            assert re.fullmatch(r"convfs: 12 records were not searched: pack .*cannot be reached.*\n", done.stderr)
        line.heal()
        done = convfs(b, *asked[0])
        assert (len(done.stdout.splitlines()), done.stderr) == (SESSIONS, "")
        # by now there is an index of words
        shutil.rmtree(b / paths.CACHE)
        (b / paths.TEXTS).unlink(missing_ok=True)
        line.cut()
        done = convfs(b, *asked[1])
        assert re.fullmatch(r"convfs: 1 record was not searched: pack .* is not here: .*\n", done.stderr)
        with mounted(b) as mount:
            hits = mount.root / "search" / asked[0][1] / "hits.txt"
            assert re.fullmatch(r"… 6 records were not searched: pack .* is not here: .*\n", hits.read_text())
        line.heal()
        assert len(convfs(b, *asked[0]).stdout.splitlines()) == SESSIONS


@pytest.mark.logs("is not here|cannot be reached", sometimes=True)
def test_a_mount_goes_on_while_a_bucket_does_not_answer(
    postgres: Postgres, s3: S3, memory_path: Path, tmp_path: Path
) -> None:
    with far_away(postgres, s3, memory_path, "mounted", sessions(tmp_path)) as (b, line), ExitStack() as held:
        with Store.open(b, renderer=FileRenderer()) as store:
            # so that all that is listed is there
            assert len(store.library.conversations("shop")) == SESSIONS
        shutil.rmtree(b / paths.CACHE)
        line.stall()
        mount = held.enter_context(mounted(b))
        transcripts = sorted((mount.root / "transcripts").rglob("*.md"))
        assert [path.stat().st_size > 1_000_000 for path in transcripts] == [True] * SESSIONS
        failed: list[int] = []
        thread = threading.Thread(target=lambda: failed.append(errno_of(transcripts[-1].read_bytes)))
        began = time.monotonic()
        thread.start()
        waited = []
        while thread.is_alive():
            asked = time.monotonic()
            os.listdir(mount.root / "conversations")
            os.stat(transcripts[0])
            waited.append(time.monotonic() - asked)
            time.sleep(0.05)
        thread.join()
        assert failed == [errno.EIO]
        assert len(waited) > 10
        # nobody waits for it who asks for something else
        assert max(waited) < (time.monotonic() - began) / 2
        line.heal()
        ends = time.monotonic() + 60
        while errno_of(transcripts[-1].read_bytes) != 0:
            assert time.monotonic() < ends
            time.sleep(0.2)
        assert [len(path.read_bytes()) > 1_000_000 for path in transcripts] == [True] * SESSIONS


def put_in_place(path: Path, text: str) -> None:
    """Save a file as many editors do."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(text)
    new.rename(path)


@pytest.mark.parametrize("save", [Path.write_text, put_in_place])
@pytest.mark.logs("is not here|cannot be reached", sometimes=True)
def test_others_save_while_somebody_begins_to_change_what_is_yet_to_be_fetched(
    postgres: Postgres, s3: S3, memory_path: Path, tmp_path: Path, save: Callable[[Path, str], object]
) -> None:
    with (
        far_away(postgres, s3, memory_path, f"changed-{save.__name__}", sessions(tmp_path)) as (b, line),
        ExitStack() as held,
    ):
        with Store.open(b, renderer=FileRenderer()) as store:
            # so that all that is listed is there
            assert len(store.library.conversations("shop")) == SESSIONS
            add(store, [user("Of this machine", 1)], name="own")
        shutil.rmtree(b / paths.CACHE)
        mount = held.enter_context(mounted(b))
        [own] = mount.root.glob("conversations/*/own/events/00001-user.md")
        [far] = mount.root.glob("conversations/shop/*question-0/events/00001-user.md")
        text = own.read_text()
        line.stall()
        failed: list[int] = []
        thread = threading.Thread(target=lambda: failed.append(errno_of(lambda: save(far, "Never mind\n"))))
        began = time.monotonic()
        thread.start()
        saves, waited = 0, []
        while thread.is_alive():
            asked = time.monotonic()
            assert not (own.parent / f"nothing-{saves}").exists()
            own.write_text(f"{text}{saves}\n")
            saves += 1
            waited.append(time.monotonic() - asked)
            time.sleep(0.05)
        thread.join()
        assert failed == [errno.EIO]
        assert saves > 3
        assert max(waited) < (time.monotonic() - began) / 2
        assert own.read_text() == f"{text}{saves - 1}\n"
        line.heal()
        until(lambda: errno_of(lambda: save(far, far.read_text().replace("Question", "Answer"))) == 0)
        assert "Answer 0?" in far.read_text()


@pytest.mark.logs("is not here|cannot be reached", sometimes=True)
def test_files_that_are_asked_for_while_a_bucket_is_away_are_found_later(
    postgres: Postgres, s3: S3, memory_path: Path, tmp_path: Path
) -> None:
    talk = Talk()
    talk.read("/garden/beds.txt", ROSES)
    talk.edit("/garden/beds.txt", "mint", "basil")
    (tmp_path / "s.jsonl").write_text("\n".join(talk.lines) + "\n")
    # in one pack with one that is large: small ones are fetched at once
    files = [tmp_path / "s.jsonl", sessions(tmp_path)[0]]
    with far_away(postgres, s3, memory_path, "known", files) as (b, line), ExitStack() as held:
        with Store.open(b, renderer=FileRenderer()):
            # it knows of all, and has read nothing
            pass
        line.cut()
        mount = held.enter_context(mounted(b))
        [talked] = mount.root.glob("conversations/garden/*")
        beds = talked / "resources/garden/beds.txt"
        assert errno_of(lambda: os.listdir(talked / "resources")) == errno.EIO
        # what is listed, and what is told of all of it, is all or an error: a copy is not short and nobody knows
        transcript = mount.root / "transcripts/garden" / f"{talked.name}.md"
        of_all = [transcript, *(talked / name for name in ("events.json", "context.json", "changes.diff"))]
        assert errno_of(lambda: os.listdir(talked / "events")) == errno.EIO
        assert [errno_of(path.read_bytes) for path in of_all] == [errno.EIO] * len(of_all)
        copied = subprocess.run(
            ["cp", "-r", talked / "events", tmp_path / "copy"], capture_output=True, text=True, timeout=60, check=False
        )
        assert copied.returncode != 0
        assert "Input/output error" in copied.stderr
        assert "events" not in json.loads((talked / "metadata.json").read_bytes())
        assert not (mount.root / "by-resource/garden").exists()
        hits = mount.root / "search/basil/hits.txt"
        assert "were not searched" in hits.read_text()
        line.heal()
        # nothing is committed meanwhile
        until((mount.root / "by-resource/garden/beds.txt").exists)
        until(lambda: "were not searched" not in hits.read_text())
        assert "basil" in hits.read_text()
        until(lambda: errno_of(lambda: os.listdir(talked / "resources")) == 0)
        assert "basil" in beds.read_text()
        until(lambda: errno_of(lambda: os.listdir(talked / "events")) == 0)
        assert [int(name[:5]) for name in sorted(os.listdir(talked / "events"))] == [1, 2, 3, 4]
        until(lambda: json.loads((talked / "metadata.json").read_bytes()).get("events") == 4)
        until(lambda: [errno_of(path.read_bytes) for path in of_all] == [0] * len(of_all))
        assert "basil" in transcript.read_text()
        until(lambda: errno_of(lambda: os.listdir(mount.root / "by-resource/garden/beds.txt")) == 0)
        assert f"{talked.name}@00004-result-Edit.md" in os.listdir(mount.root / "by-resource/garden/beds.txt")
