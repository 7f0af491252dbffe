from pathlib import Path

import pytest

from store import settings
from store.errors import UsageError
from store.paths import SETTINGS
from store.settings import ConversationSettings, Deduplication, Settings, ToolSettings


def test_no_file_means_defaults(tmp_path: Path) -> None:
    assert settings.load(tmp_path) == (Settings(), [])
    assert Settings().inline_limit_bytes == 1024


def test_what_is_set_is_taken_and_the_rest_has_its_default(tmp_path: Path) -> None:
    (tmp_path / SETTINGS).write_text("# mine\ninline_limit_bytes = 0\n")
    assert settings.load(tmp_path) == (Settings(inline_limit_bytes=0), [])


def test_an_unknown_key_warns_and_harms_nothing(tmp_path: Path) -> None:
    (tmp_path / SETTINGS).write_text("inline_limt_bytes = 5\ncontent_cache_bytes = 10\n")
    found, warnings = settings.load(tmp_path)
    assert found == Settings(content_cache_bytes=10)
    assert len(warnings) == 1
    assert "inline_limt_bytes" in warnings[0]


@pytest.mark.parametrize("value", ["-1", "true", "1.5", '"1024"', "[1]", str(1 << 63)])
def test_a_bad_value_is_one_line_that_names_file_key_and_default(tmp_path: Path, value: str) -> None:
    (tmp_path / SETTINGS).write_text(f"inline_limit_bytes = {value}\n")
    with pytest.raises(UsageError) as caught:
        settings.load(tmp_path)
    message = str(caught.value)
    assert "\n" not in message
    assert all(part in message for part in (SETTINGS, "inline_limit_bytes", "1024"))


def test_edits_are_one_of_two(tmp_path: Path) -> None:
    (tmp_path / SETTINGS).write_text('edits = "overlay"\n')
    assert settings.load(tmp_path) == (Settings(edits="overlay"), [])
    for value in ('"patch"', "1", "true", "[]"):
        (tmp_path / SETTINGS).write_text(f"edits = {value}\n")
        with pytest.raises(UsageError, match=r'edits must be "branch" or "overlay", not .*default "branch"'):
            settings.load(tmp_path)


def test_a_switch_is_true_or_false(tmp_path: Path) -> None:
    (tmp_path / SETTINGS).write_text("canonical_json = true\n")
    assert settings.load(tmp_path) == (Settings(canonical_json=True), [])
    for value in ("1", '"true"', "[]"):
        (tmp_path / SETTINGS).write_text(f"canonical_json = {value}\n")
        with pytest.raises(UsageError, match=r"canonical_json must be true or false, not .*default false"):
            settings.load(tmp_path)


@pytest.mark.parametrize("content", [b"inline_limit_bytes = \n", b"\xff\xfe", b"[", b"a = 1\na = 2\n"])
def test_a_file_that_is_no_toml_is_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / SETTINGS).write_bytes(content)
    with pytest.raises(UsageError) as caught:
        settings.load(tmp_path)
    assert "\n" not in str(caught.value)
    assert SETTINGS in str(caught.value)


def test_a_section_is_taken_and_the_rest_of_it_has_its_defaults(tmp_path: Path) -> None:
    (tmp_path / SETTINGS).write_text(
        'edits = "overlay"\n[conversation.deduplication]\nmin_bytes = 5\n'
        '[tools."fs.read"]\ndeduplicate = false\n[tools.grep]\n'
    )
    found, warnings = settings.load(tmp_path)
    assert warnings == []
    assert found == Settings(
        edits="overlay",
        conversation=ConversationSettings(Deduplication(min_bytes=5)),
        tools={"fs.read": ToolSettings(deduplicate=False), "grep": ToolSettings()},
    )


def test_sections_have_the_documented_defaults() -> None:
    assert Settings().conversation.deduplication == Deduplication(enabled=True, min_bytes=300, lookback_turns=30)
    assert Settings().tools == {}
    assert ToolSettings().deduplicate is True


def test_an_unknown_key_in_a_section_warns_by_its_full_name() -> None:
    text = "[conversation]\nx = 1\n[conversation.deduplication]\ny = 1\n[tools.grep]\nz = 1\n[nothing]\na = 1\n"
    found, warnings = settings.parse(text, "mine")
    assert found == Settings(tools={"grep": ToolSettings()})
    assert warnings == [
        f"mine: unknown setting {name!r} is ignored"
        for name in ("conversation.x", "conversation.deduplication.y", "tools.grep.z", "nothing")
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("conversation = 1", "conversation must be a section of its own, not 1"),
        ("[conversation]\ndeduplication = true", "conversation.deduplication must be a section of its own, not True"),
        ("tools = []", "tools must be a section of its own, not []"),
        ("[tools]\ngrep = false", "tools.grep must be a section of its own, not False"),
        ("[tools.grep]\ndeduplicate = 1", "tools.grep.deduplicate must be true or false, not 1 (default true)"),
        (
            "conversation.deduplication.min_bytes = -1",
            "conversation.deduplication.min_bytes must be a whole number from 0 up, not -1 (default 300)",
        ),
    ],
)
def test_a_bad_value_in_a_section_is_one_line_with_its_full_name(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        settings.parse(text, "mine")
    assert str(caught.value) == f"mine: {said}"
