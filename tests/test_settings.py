from pathlib import Path

import pytest

from store import settings
from store.errors import UsageError
from store.settings import Settings


def test_no_file_means_defaults(tmp_path: Path) -> None:
    assert settings.load(tmp_path) == (Settings(), [])
    assert Settings().inline_limit_bytes == 1024


def test_what_is_set_is_taken_and_the_rest_has_its_default(tmp_path: Path) -> None:
    (tmp_path / settings.FILE_NAME).write_text("# mine\ninline_limit_bytes = 0\n")
    assert settings.load(tmp_path) == (Settings(inline_limit_bytes=0), [])


def test_an_unknown_key_warns_and_harms_nothing(tmp_path: Path) -> None:
    (tmp_path / settings.FILE_NAME).write_text("inline_limt_bytes = 5\ncontent_cache_bytes = 10\n")
    found, warnings = settings.load(tmp_path)
    assert found == Settings(content_cache_bytes=10)
    assert len(warnings) == 1
    assert "inline_limt_bytes" in warnings[0]


@pytest.mark.parametrize("value", ["-1", "true", "1.5", '"1024"', "[1]", str(1 << 63)])
def test_a_bad_value_is_one_line_that_names_file_key_and_default(tmp_path: Path, value: str) -> None:
    (tmp_path / settings.FILE_NAME).write_text(f"inline_limit_bytes = {value}\n")
    with pytest.raises(UsageError) as caught:
        settings.load(tmp_path)
    message = str(caught.value)
    assert "\n" not in message
    assert all(part in message for part in (settings.FILE_NAME, "inline_limit_bytes", "1024"))


def test_edits_are_one_of_two(tmp_path: Path) -> None:
    (tmp_path / settings.FILE_NAME).write_text('edits = "overlay"\n')
    assert settings.load(tmp_path) == (Settings(edits="overlay"), [])
    for value in ('"patch"', "1", "true", "[]"):
        (tmp_path / settings.FILE_NAME).write_text(f"edits = {value}\n")
        with pytest.raises(UsageError, match=r'edits must be "branch" or "overlay", not .*default "branch"'):
            settings.load(tmp_path)


def test_a_switch_is_true_or_false(tmp_path: Path) -> None:
    (tmp_path / settings.FILE_NAME).write_text("canonical_json = true\n")
    assert settings.load(tmp_path) == (Settings(canonical_json=True), [])
    for value in ("1", '"true"', "[]"):
        (tmp_path / settings.FILE_NAME).write_text(f"canonical_json = {value}\n")
        with pytest.raises(UsageError, match=r"canonical_json must be true or false, not .*default false"):
            settings.load(tmp_path)


@pytest.mark.parametrize("content", [b"inline_limit_bytes = \n", b"\xff\xfe", b"[", b"a = 1\na = 2\n"])
def test_a_file_that_is_no_toml_is_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / settings.FILE_NAME).write_bytes(content)
    with pytest.raises(UsageError) as caught:
        settings.load(tmp_path)
    assert "\n" not in str(caught.value)
    assert settings.FILE_NAME in str(caught.value)
