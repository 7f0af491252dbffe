"""Imports between layers: lower ones know nothing of higher ones, and each foreign library has its place."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Lowest first; what stands together in a row may import each other. A module belongs to the longest name that it
# begins with, so "store" and "fusefs" stand for the modules right inside these.
LAYERS = (
    ("store.errors", "store.hashes", "store.ids", "store.locks", "store.helper"),
    ("store.settings", "store.filenames", "store.paths", "store.visible", "store.typed"),
    ("store.events",),
    ("store.disk",),
    ("store.index",),
    ("store.content",),
    ("store.formats",),
    ("store.commit", "store.shared"),
    ("store.conversations",),
    ("store.upkeep",),
    ("store.results", "store.texts"),
    ("store.artifacts",),
    ("store.exporting.dialogue", "store.exporting.steps"),
    ("store.worktree",),
    ("store.delivery",),
    ("store.search",),
    ("store.insight",),
    ("store",),
    ("store.upkeep.fsck",),
    ("store.editing",),
    ("store.importing",),
    ("store.upkeep.repair", "store.upkeep.log_repair"),
    ("store.retention",),
    ("store.compare",),
    ("store.worktree.blame", "store.worktree.briefs", "store.worktree.changes"),
    ("store.exporting",),
    ("store.delivery.context",),
    ("store.redaction",),
    ("store.transfer",),
    ("store.backlinks",),
    ("store.service",),
    ("store.web",),
    ("fusefs.text",),
    ("fusefs.tree", "fusefs.inodes", "fusefs.opens", "fusefs._opens"),
    ("fusefs.editing",),
    ("fusefs",),
    ("fusefs.daemon",),
    ("fusefs.cli",),
)

# Where each library may be imported; a name stands for itself and everything under it.
ALLOWED = {
    "blake3": ("store", "fusefs.text"),
    "msgspec": ("store", "fusefs"),
    "isal": ("store.disk", "store.index"),
    "rfc8785": ("store.conversations.canonical",),
    "msgpack": ("store.conversations.canonical",),
    "cbor2": ("store.conversations.canonical",),
    "markdown_it": ("store.exporting.html", "fusefs.text.prose"),
    "pygments": ("store.exporting.html",),
    "cryptography": ("store.shared.ciphertext", "store.shared.keys"),
    "zstandard": ("store.content",),
    "pyfastcdc": ("store.content.delta",),
    "inotify_simple": ("store.importing.watch", "store.shared.directory"),
    "psycopg": ("store.shared.postgres",),
    "obstore": ("store.shared.bucket",),
    "trio": ("store.service", "store.web", "fusefs"),
    "pyfuse3": ("fusefs",),
    "mcp": ("fusefs.cli.mcp",),
    "hypercorn": ("store.web.server",),
    "starlette": ("store.web.app",),
    "textual": ("fusefs.cli.browser", "fusefs.cli.panes"),
    "click": ("fusefs.cli",),
    "rich": ("fusefs.cli",),
}

# Under which name a library is declared, where that is not the one that it is imported by.
DECLARED = {
    "hypercorn": "hypercorn[trio]",
    "inotify_simple": "inotify-simple",
    "markdown_it": "markdown-it-py",
    "psycopg": "psycopg[binary]",
}


def modules() -> Iterator[tuple[str, Path]]:
    for package in ("store", "fusefs"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imported(path: Path) -> Iterator[tuple[str, int]]:
    """Yield every module that a file imports, wherever in it, with the line; type checking alone counts too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            module = node.module or ""
            yield module, node.lineno
            # `from package import module`
            yield from ((f"{module}.{alias.name}", node.lineno) for alias in node.names)


def within(module: str, name: str) -> bool:
    return module == name or module.startswith(f"{name}.")


def layer(module: str) -> int | None:
    if module in {"store", "fusefs"}:
        # `from fusefs import inodes`: the package itself holds nothing.
        return None
    found = [(len(name), number) for number, names in enumerate(LAYERS) for name in names if within(module, name)]
    return max(found)[1] if found else None


MODULES = list(modules())


def test_every_package_has_its_place() -> None:
    placed = {name for names in LAYERS for name in names}
    packages = {name for name, path in MODULES if path.name == "__init__.py"}
    assert {name for name in packages if name.count(".") < 2} <= placed


def test_lower_layers_do_not_import_higher_ones() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {target}"
        for name, path in MODULES
        if (own := layer(name)) is not None
        for target, line in imported(path)
        if (other := layer(target)) is not None and other > own
    ]
    assert wrong == []


def circles(graph: dict[str, set[str]]) -> Iterator[set[str]]:
    """Yield the modules of each circle of imports: those that import each other, however far about."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []

    def visit(module: str) -> Iterator[set[str]]:
        number[module] = lowest[module] = len(number)
        path.append(module)
        for other in graph[module]:
            if other not in number:
                yield from visit(other)
            if other in path:
                lowest[module] = min(lowest[module], lowest[other])
        if lowest[module] == number[module]:
            circle = set(path[path.index(module) :])
            del path[path.index(module) :]
            if len(circle) > 1:
                yield circle

    for module in graph:
        if module not in number:
            yield from visit(module)


def test_no_modules_import_each_other() -> None:
    names = {name for name, path in MODULES if path.name != "__init__.py"}
    graph = {name: {target for target, _ in imported(path)} & names - {name} for name, path in MODULES}
    assert list(circles(graph)) == []


def test_circles_are_found() -> None:
    assert list(circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a", "c"}})) == [{"b", "c"}]
    assert list(circles({"a": {"b", "c"}, "b": {"c"}, "c": set()})) == []


def test_libraries_are_used_where_they_belong() -> None:
    wrong = []
    for name, path in MODULES:
        for target, line in imported(path):
            library = target.partition(".")[0]
            if library in {"store", "fusefs"} or library in sys.stdlib_module_names:
                continue
            if not any(within(name, place) for place in ALLOWED.get(library, ())):
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {library}")
    assert wrong == []


def test_the_store_knows_nothing_of_the_mount() -> None:
    wrong = [
        f"{path}:{line}"
        for name, path in MODULES
        if within(name, "store")
        for target, line in imported(path)
        if within(target, "fusefs")
    ]
    assert wrong == []


def test_dependencies_are_those_that_are_imported() -> None:
    declared = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    used = {target.partition(".")[0] for _, path in MODULES for target, _ in imported(path)}
    for library in ALLOWED:
        assert library in used, f"{library} is not used"
        assert f'"{DECLARED.get(library, library)}>=' in declared, f"{library} is not declared"


def test_what_spaces_need_is_installed_on_request_alone() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    def named(requirement: str) -> str:
        return re.split(r"[^A-Za-z0-9._-]", requirement)[0].lower().replace("_", "-")

    installed = {named(one.name) for one in metadata.distributions()}
    todo = {named(one) for one in project["dependencies"]}
    needed: set[str] = set()
    while todo - needed:
        needed |= todo
        with_extras = [one for name in todo for one in metadata.requires(name) or ()]
        # what is for other systems is not installed
        todo = {named(one) for one in with_extras if "extra ==" not in one} & installed
    assert {"msgspec", "click", "rich"} <= needed
    assert needed.isdisjoint({named(one) for one in project["optional-dependencies"]["shared"]})
