"""The examples of the README and the manual, run as they stand there."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec import Struct, structs

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
MANUAL = ROOT / "fusefs/MANUAL.md"

pytestmark = pytest.mark.skipif(
    not os.access("/dev/fuse", os.W_OK) or not shutil.which("fusermount3"), reason="FUSE is not available here"
)


class Example(NamedTuple):
    line: int
    command: str
    output: str


def examples(page: Path) -> list[list[Example]]:
    """Return the console examples of a page, in order; those of one block belong together."""
    blocks = []
    text = page.read_text(encoding="utf-8")
    for block in re.finditer(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        first = text.count("\n", 0, block.start(1)) + 1
        found: list[Example] = []
        for number, line in enumerate(block[1].splitlines(keepends=True), first):
            if line.startswith("$ "):
                found.append(Example(number, line[2:].rstrip("\n"), ""))
            elif line.startswith("> ") and not found[-1].output:
                # as a shell asks for more of a command
                found[-1] = found[-1]._replace(command=found[-1].command + "\n" + line[2:].rstrip("\n"))
            else:
                found[-1] = found[-1]._replace(output=found[-1].output + line)
        blocks.append(found)
    return blocks


@pytest.fixture
def home() -> Iterator[Path]:
    """A user's home with the demo set mounted in it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="convfs-readme-", dir=cache) as directory:
        home = Path(directory)
        (home / "bin").mkdir()
        convfs = home / "bin/convfs"
        convfs.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m fusefs.cli "$@"\n')
        convfs.chmod(0o755)
        run(home, "convfs import --demo && convfs mount ~/conversations")
        try:
            yield home
        finally:
            run(home, "convfs umount ~/conversations")


def run(home: Path, script: str) -> str:
    environment = {"HOME": str(home), "PATH": f"{home}/bin:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
    environment |= {"XDG_RUNTIME_DIR": str(home), "TZ": "UTC"}
    done = subprocess.run(
        ["bash", "-c", script],
        env=environment,
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize(("page", "least"), [(README, 8), (MANUAL, 40)], ids=["readme", "manual"])
def test_every_example_gives_what_the_page_shows(home: Path, page: Path, least: int) -> None:
    directory = home / "conversations"
    seen = 0
    for block in examples(page):
        for example in block:
            shown = run(home, f"set -e; cd {directory}; {example.command}\npwd")
            output, _, where = shown.removesuffix("\n").rpartition("\n")
            directory = Path(where)
            assert (output + "\n" if output else "") == example.output, f"{page.name}:{example.line}: {example.command}"
            seen += 1
    assert seen >= least


def test_the_table_of_settings_is_true() -> None:
    from store.settings import Settings, ToolSettings

    text = MANUAL.read_text(encoding="utf-8")
    [table] = re.findall(r"^\| setting \| default \| \|\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    rows = re.findall(r"^\| `([\w.]+)` \| ([^|]+) \|", table, re.MULTILINE)
    named = Settings(tools={"NAME": ToolSettings()})
    assert {name: default(text) for name, text in rows} == dict(leaves("", named))


def default(text: str) -> object:
    """Return the value that a cell of the table shows."""
    if text == "never":
        return None
    number, _, unit = text.partition(" ")
    if number.isdecimal():
        return int(number) * {"": 1, "MiB": 1 << 20, "GiB": 1 << 30}[unit]
    value = tomllib.loads(f"value = {text.strip('`')}")["value"]
    return tuple(value) if isinstance(value, list) else value


def leaves(name: str, value: object) -> Iterator[tuple[str, object]]:
    """Yield each setting in a section by its full name, with its value."""
    if isinstance(value, Struct):
        value = structs.asdict(value)
    if not isinstance(value, dict):
        yield name, value
        return
    for key, inner in value.items():
        yield from leaves(f"{name}.{key}" if name else key, inner)


def test_what_programs_do_can_be_done(memory_path: Path) -> None:
    from tests.fusefs.cli.user import User, serving

    user = User(memory_path)
    user.run("import", ROOT / "fusefs/cli/demo")
    programs = re.findall(r"^```python\n(.*?)^```$", MANUAL.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(programs) == 2
    with serving(user):
        said = [
            subprocess.run(
                [sys.executable, "-c", program],
                env=user.environment,
                capture_output=True,
                text=True,
                check=True,
                timeout=60,
            ).stdout
            for program in programs
        ]
    assert said == ['b\'{"text": "hello"}\'\n', "total = sum(prices)\n\n"]


def test_the_table_of_commands_names_them_all() -> None:
    from fusefs.cli.main import COMMANDS

    text = MANUAL.read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"`convfs {name}" not in text] == []


PAGES = [
    README,
    MANUAL,
    ROOT / "fusefs/LAYOUT.md",
    ROOT / "store/FORMAT.md",
    ROOT / "store/FORMATS.md",
    ROOT / "store/SHARED.md",
    ROOT / "store/PROTOCOL.md",
    ROOT / "store/TRANSFER.md",
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", prose(page)):
        there = page.parent / target if target else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), f"{target}#{anchor}"


def test_the_readme_leads_to_the_other_pages() -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", prose(README))
    assert {str(page.relative_to(ROOT)) for page in PAGES[1:]} <= set(targets)


def test_the_readme_begins_with_commands_and_is_short() -> None:
    lines = README.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 150
    assert any(line.startswith("./mount.sh ") for line in lines[:15])


def test_the_contents_of_the_manual_list_its_sections() -> None:
    contents = prose(MANUAL).partition("## Contents\n")[2].partition("\n## ")[0]
    listed = re.findall(r"\(#([^)]+)\)", contents)
    assert listed == [anchor for anchor in anchors(MANUAL) if anchor not in ("the-convfs-manual", "contents")]
    assert listed[-1] == "changelog"


def prose(page: Path) -> str:
    """Return a page without its fenced blocks."""
    return re.sub(r"^(`{3,}).*?^\1$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> list[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
