"""Reading values of a type for the first time, in many threads."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
RACE = """
import sys
from threading import Barrier, Thread
import tomllib
from pathlib import Path
from store import typed
from store.formats.declared.description import Description

sys.setswitchinterval(1e-6)
pages = [tomllib.loads(page.read_text()) for page in Path("store/formats/descriptions").glob("*.toml")]
together = Barrier(4)

def read():
    together.wait()
    for page in pages:
        typed.convert(page, Description)

threads = [Thread(target=read) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_threads_that_read_a_type_for_the_first_time() -> None:
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", RACE], cwd=ROOT, timeout=60, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")


def within_functions(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from (call for call in ast.walk(node) if isinstance(call, ast.Call))


def test_types_are_read_in_one_place() -> None:
    """msgspec reads a type for the first time where a module begins, or in store/typed.py."""
    wrong = []
    for path in (*ROOT.glob("store/**/*.py"), *ROOT.glob("fusefs/**/*.py")):
        if path == ROOT / "store/typed.py":
            continue
        for call in within_functions(ast.parse(path.read_text())):
            named = ast.unparse(call.func)
            typed = any(keyword.arg == "type" for keyword in call.keywords)
            if named == "msgspec.convert" or (named.endswith(("json.decode", "msgpack.decode")) and typed):
                wrong.append(f"{path.relative_to(ROOT)}:{call.lineno}")
    assert wrong == []
