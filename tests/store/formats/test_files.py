import os
from pathlib import Path

from store.formats.core.look import head_lines, read_head


def test_the_head_is_bounded(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"x\n" * 50_000)
    assert read_head(file) == b"x\n" * 32_768
    assert head_lines(b"a\n\n \nb\nc", 2) == [b"a", b"b"]


def test_only_regular_files_have_a_head(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert read_head(tmp_path / "pipe") is None
    assert read_head(tmp_path) is None
    assert read_head(tmp_path / "none") is None
