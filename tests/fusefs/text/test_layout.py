"""The examples of ``LAYOUT.md`` are drawn as it says."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusefs.text.parse import parse_event
from fusefs.text.render import FileRenderer, render_event
from store.events.event import Block, Event, Kind, Resource
from store.importing.importer import Importer
from store.store import Store

ROOT = Path(__file__).resolve().parent.parent.parent.parent
LAYOUT = (ROOT / "fusefs/LAYOUT.md").read_text(encoding="utf-8")
DEMO = ROOT / "fusefs/cli/demo"
FILES = [found[2] for found in re.finditer(r"^(`{3,})markdown\n(.*?)^\1$", LAYOUT, re.MULTILINE | re.DOTALL)]
KINDS = {kind.name.lower(): kind for kind in Kind}


def event_of(text: str) -> tuple[int, Event]:
    """Return the event that an example shows."""
    file = parse_event(text.encode())
    own = {key: field.value for key, field in file.head.items()}
    header = {key: field.value for key, field in file.header.items()}
    blocks = tuple(
        Block(seen.type, seen.text, None if seen.text is not None else b"", seen.name, seen.uri, seen.mime)
        for seen in file.blocks
    )
    resources = tuple(Resource(block.uri, block.mime, b"") for block in blocks if block.data is not None)
    return int(own["event"]), Event(
        KINDS[str(own["type"])],
        str(own.get("tool", "")),
        header,
        blocks,
        parent=int(own.get("parent", 0)),
        resources=resources,
    )


def test_there_are_examples() -> None:
    assert len(FILES) >= 4


@pytest.mark.parametrize("text", FILES)
def test_an_example_is_drawn_as_it_stands(text: str) -> None:
    assert render_event(*event_of(text)).decode() == text


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[dict[str, list[bytes]]]:
    """The files of every demo conversation, by its name."""
    with Store.open(tmp_path / "store", renderer=FileRenderer()) as store:
        Importer(store).run([DEMO])
        files: dict[str, list[bytes]] = {}
        for conversation in store.library.conversations():
            files[conversation.name] = [
                render_event(row.number, event)
                for row, event in store.viewer.events(store.records.rows(conversation.head))
                if isinstance(event, Event)
            ]
        yield files


def test_examples_of_the_demo_are_from_the_demo(demo: dict[str, list[bytes]]) -> None:
    files = demo["2026-03-05-demo-fix-the-login-bug"]
    shown = re.search(r"^\$ cat \S+/events/00006-it\.md\n(.*?)^```$", LAYOUT, re.MULTILINE | re.DOTALL)
    assert shown is not None
    assert files[5].decode() == shown[1]
    assert files[15].decode() in FILES
