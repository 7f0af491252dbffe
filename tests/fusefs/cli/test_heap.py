"""The free memory that a daemon is allowed to keep, and what it looks through for garbage."""

import subprocess
import sys

import pytest

SCRIPT = """
import sqlite3, sys, threading
from fusefs.cli.daemon import prepare

def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

if sys.argv[1] == "prepared":
    prepare()

def fill():
    large, small = [], []
    for number in range(1000):
        large.append(bytes([number % 255 + 1]) * 40_000)
        small.append(bytes(600))
    del large
    held.append(small)
    filled.release()
    ended.wait()

held, filled, ended = [], threading.Semaphore(0), threading.Event()
before = resident()
# one after the other, and all of them are there in the end
for _ in range(4):
    threading.Thread(target=fill).start()
    filled.acquire()
ended.set()
largest = sqlite3.connect(":memory:").execute("PRAGMA soft_heap_limit").fetchone()[0]
print(resident() - before, largest)
"""


@pytest.fixture
def measured() -> dict[str, tuple[int, int]]:
    found = {}
    for how in ("prepared", "as it is"):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, how], capture_output=True, text=True, check=True, timeout=60
        )
        kept, largest = map(int, done.stdout.split())
        found[how] = kept, largest
    return found


def test_what_one_thread_frees_serves_the_others(measured: dict[str, tuple[int, int]]) -> None:
    assert measured["prepared"][0] < 0.7 * measured["as it is"][0]


def test_the_caches_of_all_connections_have_a_bound(measured: dict[str, tuple[int, int]]) -> None:
    assert measured["as it is"][1] == 0
    assert 0 < measured["prepared"][1] <= 16 << 20


LOADING = """
import gc
from fusefs.cli.daemon import loading

with loading():
    assert not gc.isenabled()
    import fusefs.mount

class Knot:
    def __init__(self):
        self.itself = self

Knot()
print(gc.isenabled(), gc.get_freeze_count(), len(gc.get_objects()), gc.collect())
"""


def test_what_is_loaded_is_never_looked_through_for_garbage() -> None:
    done = subprocess.run([sys.executable, "-c", LOADING], capture_output=True, text=True, check=True, timeout=60)
    enabled, frozen, others, found = done.stdout.split()
    assert enabled == "True"
    assert int(frozen) > 20 * int(others)
    # garbage of later is found all the same
    assert int(found) >= 1


MAKING = """
import gc
from fusefs.cli.daemon import prepare

prepare()
looked = []

def told(phase, of):
    if phase == "start" and of["generation"] < 2:
        looked.append(sum(len(gc.get_objects(generation=young)) for young in range(of["generation"] + 1)))

gc.callbacks.append(told)
kept = [[] for _ in range(200_000)]
print(max(looked), len(looked))
"""


def test_few_new_objects_are_looked_through_at_a_time() -> None:
    done = subprocess.run([sys.executable, "-c", MAKING], capture_output=True, text=True, check=True, timeout=60)
    most, looks = map(int, done.stdout.split())
    assert most < 20_000
    assert looks > 10
