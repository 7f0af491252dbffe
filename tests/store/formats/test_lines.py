from hypothesis import given
from hypothesis import strategies as st

from store.formats.core.format import line_spans


@given(st.lists(st.sampled_from([b"", b"\r", b"{}", b"text \0", b"\xff"])), st.booleans())
def test_lines_are_cut_and_empty_ones_are_not(lines: list[bytes], final: bool) -> None:
    data = b"\n".join(lines) + (b"\n" if final else b"")
    spans = list(line_spans(memoryview(data), 0))
    assert [data[span.start : span.end] for span in spans] == [line for line in lines if line]
    for span in spans:
        assert list(line_spans(memoryview(data), span.end)) == [later for later in spans if later.start > span.start]
