"""JSON as foreign tools write it, for property tests: every way to spell a string, duplicate keys, and damage."""

import json

from hypothesis import strategies as st

_SHORT = {'"': b'\\"', "\\": b"\\\\", "\b": b"\\b", "\t": b"\\t", "\n": b"\\n", "\f": b"\\f", "\r": b"\\r"}

pieces = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=12),
    st.text('"\\', max_size=4),
    st.text("abcdefghijklmnopqrstuvwxyz ", min_size=20, max_size=60),
    st.sampled_from(
        ["\n", "\t", "\u2028<b>&amp;", "\ud83d\ude00", "\ud800", "C:\\", "\x7f\x00\x1f", ";base64,", "A" * 64]
    ),
    st.sampled_from(["developer", "supervisor", "system"]),
)
texts = st.lists(pieces, max_size=6).map("".join)
keys = st.one_of(
    st.sampled_from(["text", "content", "data", "blob", "system_prompt", "instructions", "system", "role", "k" * 50]),
    texts,
)


def spell(text: str, style: str) -> bytes:
    """Write ``text`` as a JSON string in one of STYLES."""
    if style == "python":
        return json.dumps(text).encode()
    if style == "upper":
        return b'"' + b"".join(b"\\u%04X" % unit for unit in _units(text)) + b'"'
    out = []
    for char in text:
        if char in _SHORT:
            out.append(_SHORT[char])
        elif char < " " or "\ud800" <= char <= "\udfff" or (style == "go" and char in "<>&\u2028\u2029"):
            out.append(b"\\u%04x" % ord(char))
        elif style == "php" and char == "/":
            out.append(b"\\/")
        else:
            out.append(char.encode())
    return b'"' + b"".join(out) + b'"'


STYLES = ("js", "python", "go", "php", "upper")


def _units(text: str) -> list[int]:
    data = text.encode("utf-16-le", "surrogatepass")
    return [int.from_bytes(data[at : at + 2], "little") for at in range(0, len(data), 2)]


strings = st.builds(spell, texts, st.sampled_from(STYLES))
scalars = st.one_of(
    strings, st.sampled_from([b"null", b"true", b"-0.0", b"1E400", b"12345678901234567890", b"[" + b"1," * 60 + b"1]"])
)


def _array(items: list[bytes]) -> bytes:
    return b"[" + b",".join(items) + b"]"


def _object(members: list[tuple[bytes, bytes, bytes]]) -> bytes:
    return b"{" + b",".join(key + blank + value for key, blank, value in members) + b"}"


_blanks = st.sampled_from([b":", b": ", b" :\n  "])
documents = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(_array),
        st.lists(st.tuples(st.builds(spell, keys, st.sampled_from(STYLES)), _blanks, inner), max_size=4).map(_object),
    ),
    max_leaves=12,
).map(lambda document: b'{"document":' + document + b"}")
"""Valid documents that are objects, in bytes."""


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Draw a document with something cut out, put in or changed."""
    document = draw(documents)
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(document)))
        stop = draw(st.integers(start, min(len(document), start + 40)))
        document = (
            document[:start]
            + draw(st.one_of(st.binary(max_size=8), st.sampled_from([b'"', b"\\", b"\0" * 9])))
            + document[stop:]
        )
    return document
