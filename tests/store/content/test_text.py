from hypothesis import given
from hypothesis import strategies as st

from store.content.cuts import is_text


@given(st.binary(max_size=50))
def test_text_is_utf_8_without_nuls(data: bytes) -> None:
    try:
        expected = "\0" not in data.decode()
    except UnicodeDecodeError:
        expected = False
    assert is_text(data) == expected
    assert is_text(memoryview(data)) == expected


def test_large_text_is_looked_at_in_pieces() -> None:
    text = "é".encode() * (1 << 20)
    assert is_text(b"x" + text)
    assert not is_text(text[:-1])
    assert not is_text(text + b"\0")
