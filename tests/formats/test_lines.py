import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from store.formats.lines import head_lines, line_spans, read_head


@given(st.lists(st.sampled_from([b"", b"\r", b"{}", b"text \0", b"\xff"])), st.booleans())
def test_lines_are_cut_and_empty_ones_are_not(lines: list[bytes], final: bool) -> None:
    data = b"\n".join(lines) + (b"\n" if final else b"")
    spans = list(line_spans(memoryview(data), 0))
    assert [data[span.start : span.end] for span in spans] == [line for line in lines if line]
    for span in spans:
        assert list(line_spans(memoryview(data), span.end)) == [later for later in spans if later.start > span.start]


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
