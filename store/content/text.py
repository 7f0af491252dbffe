"""Telling text from other content."""

from codecs import getincrementaldecoder

_PIECE = 1 << 20


def is_text(data: bytes | memoryview) -> bool:
    """Say whether ``data`` is UTF-8 without NULs. Takes a few MB of memory at most."""
    decoder = getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(data), _PIECE):
            if "\0" in decoder.decode(data[start : start + _PIECE]):
                return False
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True
