"""Settings of the store, and what a conversation's metadata says instead."""

from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.errors import UsageError
from store.paths import SETTINGS
from store.settings import (
    ConversationSettings,
    Deduplication,
    Rules,
    Settings,
    ToolSettings,
    overridden,
    rules_of,
)
from store.store import Store
from tests.store.delivery.talk import LONG, Reference, Talk, resource


def sent(talk: Talk, tool: str = "fs_read_file") -> bool:
    """Read a file twice, and say whether it is sent twice."""
    talk.asks()
    talk.reads(resource(), tool=tool)
    talk.reads(resource(), tool=tool)
    return talk.results()[-2:] == [[LONG], [LONG]]


@pytest.mark.parametrize(
    ("toml", "is_sent"),
    [
        ("", False),
        ("[conversation.deduplication]\nenabled = false", True),
        ("[conversation.deduplication]\nmin_bytes = 5000", True),
        ("[tools.fs_read_file]\ndeduplicate = false", True),
        ("[tools.another]\ndeduplicate = false", False),
        ("[conversation.deduplication]\nenabled = false\n[tools.fs_read_file]\ndeduplicate = true", True),
    ],
)
def test_the_settings_of_a_store(tmp_path: Path, toml: str, is_sent: bool) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / SETTINGS).write_text(toml)
    with Store.open(tmp_path / "store", renderer=FileRenderer()) as store:
        assert store.warnings == []
        assert sent(Talk(store)) is is_sent


@pytest.mark.parametrize(
    ("metadata", "is_sent"),
    [
        ({}, True),
        ({"conversation": {"deduplication": {"enabled": True}}}, False),
        (
            {"conversation": {"deduplication": {"enabled": True}}, "tools": {"fs_read_file": {"deduplicate": False}}},
            True,
        ),
    ],
)
def test_metadata_overrides_them(tmp_path: Path, metadata: dict[str, object], is_sent: bool) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / SETTINGS).write_text("[conversation.deduplication]\nenabled = false\nmin_bytes = 10")
    with Store.open(tmp_path / "store", renderer=FileRenderer()) as store:
        talk = Talk(store)
        talk.sets(**metadata)
        assert talk.rules.deduplication.min_bytes == 10
        assert sent(talk) is is_sent


def test_a_tool_that_is_exempt_still_delivers(talk: Talk) -> None:
    talk.sets(tools={"cat": {"deduplicate": False}})
    talk.asks()
    talk.reads(resource(), tool="cat")
    talk.reads(resource(), tool="cat")
    talk.reads(resource(), tool="fs_read_file")
    results = talk.results()
    assert results[:2] == [[LONG], [LONG]]
    assert results[2] == [Reference(5, 1)]


def test_what_does_not_fit_in_metadata_is_passed_over() -> None:
    settings = Settings(conversation=ConversationSettings(Deduplication(min_bytes=7)))
    plain = rules_of(settings, {})
    for metadata in (
        {"conversation": 5},
        {"conversation": {"deduplication": {"min_bytes": "x"}}},
        {"conversation": {"unknown": 1}},
        {"tools": ["Read", "Bash"]},
        {"tools": {"Read": {"name": "Read"}}},
    ):
        assert rules_of(settings, metadata) == plain
    found = rules_of(settings, {"conversation": 5, "tools": {"cat": {"deduplicate": False}}})
    assert found == Rules(settings.conversation, {"cat": ToolSettings(deduplicate=False)})


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"conversation": 5}, "conversation must be a section"),
        ({"tools": {"cat": {"deduplicate": 1}}}, "tools.cat.deduplicate must be true or false"),
        ({"tools": {"cat": {"other": 1}}}, "unknown setting 'tools.cat.other'"),
    ],
)
def test_whoever_saves_it_is_told(table: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        overridden(Rules(), table)
