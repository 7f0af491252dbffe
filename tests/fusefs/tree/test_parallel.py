"""Many programs at once, some of them killed in the middle of a request."""

import random
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.fusefs.tree.mounting import Mounted, add, assistant, mounted, new_store, user

GREPS = 6
EVENTS = 400
CONVERSATIONS = 12


@pytest.fixture(scope="module")
def large_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "store"
    words = [f"word{number}" for number in range(2000)]
    choice = random.Random(1)
    with new_store(path) as store:
        for number in range(CONVERSATIONS):
            lines = []
            for event in range(EVENTS):
                text = " ".join(choice.choices(words, k=200))
                if event % 50 == 0:
                    text += " NEEDLE"
                lines.append(user(text, event) if event % 2 else assistant(text, event))
            add(store, lines, name=f"2026-03-05-talk-{number}")
    return path


def grep(mount: Mounted, output: int = subprocess.PIPE) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        ["grep", "-rl", "NEEDLE", "conversations", "transcripts"],
        cwd=mount.root,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )


def uninterruptible(pids: list[int]) -> list[int]:
    found = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state == "D":
            found.append(pid)
    return found


def expected() -> int:
    # in an event, in events.json never (contents are references), and once a transcript
    return CONVERSATIONS * (EVENTS // 50 + 1)


def test_six_greps_at_once_find_the_same(large_store: Path) -> None:
    with mounted(large_store) as mount:
        greps = [grep(mount) for _ in range(GREPS)]
        outputs = [process.communicate(timeout=60) for process in greps]
        for output, errors in outputs:
            assert errors == b""
            assert len(output.splitlines()) == expected()


def test_greps_killed_in_the_middle_leave_the_mount_alive(large_store: Path) -> None:
    with mounted(large_store) as mount:
        stop = threading.Event()
        killed = 0
        running: list[subprocess.Popen[bytes]] = []

        def kill() -> None:
            nonlocal killed
            choice = random.Random(2)
            while not stop.is_set():
                time.sleep(choice.random() * 0.06)
                for process in choice.sample(running, min(len(running), 2)):
                    if process.poll() is None:
                        process.send_signal(choice.choice([signal.SIGKILL, signal.SIGTERM]))
                        killed += 1

        killer = threading.Thread(target=kill)
        killer.start()
        end = time.monotonic() + 8
        try:
            while time.monotonic() < end:
                if killed % 10 == 0:
                    mount.make_kernel_forget()
                running = [process for process in running if process.poll() is None]
                while len(running) < GREPS:
                    running.append(grep(mount, subprocess.DEVNULL))
                time.sleep(0.01)
        finally:
            stop.set()
            killer.join()
            for process in running:
                process.kill()
        for process in running:
            process.wait(timeout=20)
        assert killed > 20
        assert uninterruptible([process.pid for process in running]) == []
        assert mount.daemon.poll() is None
        output, errors = grep(mount).communicate(timeout=60)
        assert errors == b""
        assert len(output.splitlines()) == expected()


def test_a_stopped_reader_does_not_stop_the_others(large_store: Path) -> None:
    with mounted(large_store) as mount:
        stopped = grep(mount)
        time.sleep(0.1)
        stopped.send_signal(signal.SIGSTOP)
        output, _ = grep(mount).communicate(timeout=60)
        assert len(output.splitlines()) == expected()
        stopped.send_signal(signal.SIGCONT)
        output, _ = stopped.communicate(timeout=60)
        assert len(output.splitlines()) == expected()
