"""Names of a store's files are written in one place."""

import ast
from collections.abc import Iterator
from pathlib import Path

from store import paths

ROOT = Path(__file__).resolve().parent.parent
NAMES = {name for key, name in vars(paths).items() if key.isupper() and isinstance(name, str)}
NAMES |= {Path(name).name for name in NAMES}

# What tools call their own files is said where their formats are.
TOOLS = ("store/formats", "store/exporting", "store/importing/cxdb.py")


def written(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield the literals that can be nothing but a store's file: a name with a dot, or one that is joined to a path."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            yield from (side for side in (node.left, node.right) if isinstance(side, ast.Constant))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            yield node


def test_no_other_module_writes_the_name_of_a_file() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{literal.lineno}: {literal.value}"
        for package in ("store", "fusefs")
        for path in sorted((ROOT / package).rglob("*.py"))
        if path != Path(paths.__file__) and not str(path.relative_to(ROOT)).startswith(TOOLS)
        for literal in written(ast.parse(path.read_text(encoding="utf-8")))
        if literal.value in NAMES
    ]
    assert found == []


def test_a_pack_is_found_by_its_name() -> None:
    for number in (1, 99_999_999, 100_000_000, paths.REWRITTEN, paths.REWRITTEN + 7):
        assert paths.pack_number(paths.pack_name(number)) == number
    for name in ("1.pack", "00000001.pack.new", "x00000001.pack", "00000001.pak", ""):
        assert paths.pack_number(name) is None
