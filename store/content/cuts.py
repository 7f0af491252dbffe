"""Cuts: the strings that leave a payload for blobs of their own, and how they come back.

Bytes are cut, never re-serialized: what is left of a payload is its own bytes, and each content that left is spelled
back the way it was, which is tried before it is cut. So any bytes at all survive :func:`cut` and :func:`join`
unchanged; JSON only says where cutting pays.

String literals that are long enough to cut out are found without parsing: a parser would cost more than everything
else that an import does to a line. Instead quotes are looked for backwards from the end of a window as long as the
shortest string wanted: no string of that length fits before the last quote of the window, so the search goes on from
there, and most of the payload is never looked at. Damaged JSON may yield ranges that are not strings, so
cutting must be lossless for any range.

A *spelling* is the way in which a payload writes a content down. Reading one is lossless or nothing: a spelling is
only chosen if writing the content in it gives back the same bytes. All functions are pure. Contents beyond a few MB
are worked on in pieces, since a decoded string may take four bytes a character.
"""

import re
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from codecs import getincrementaldecoder
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO

import msgspec
from msgspec import Struct

from store.content.prompts import MARK, find_prompts
from store.disk import skeleton_format
from store.disk.skeleton_format import Spelling
from store.errors import DamageError
from store.ids import Hash, hash_bytes

_ANY = re.compile(rb'"([^"]*)"')
_AFTER = re.compile(rb"[ \t\r\n]*(.?)")
_SCAN_BELOW = 48
_NOT_INSIDE = b",:]}"


def find_literals(payload: bytes, at_least: int) -> list[tuple[int, int]] | None:
    """Return the ranges between the quotes of all string values of ``at_least`` bytes (1 or more).

    Keys are left out. Ranges rise and do not overlap. Strings that end in an escaped backslash are so rare that they
    are taken for strings which go on; None says that this has led astray and :func:`find_literals_carefully` must be
    asked. It may also show in that a range is no JSON string.
    """
    if at_least < _SCAN_BELOW:
        return find_literals_carefully(payload, at_least)
    masked = payload.replace(b'\\"', b"__") if b"\\" in payload else payload
    return _long_ranges(masked, at_least, careful=False)


def find_literals_carefully(payload: bytes, at_least: int) -> list[tuple[int, int]]:
    """As :func:`find_literals`, at half the speed; right for every valid document."""
    masked = payload
    if b"\\" in payload:
        masked = payload.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    if at_least < _SCAN_BELOW:
        spans = (match.span(1) for match in _ANY.finditer(masked))
        return [(start, stop) for start, stop in spans if stop - start >= at_least and not _is_key(masked, stop)]
    return _long_ranges(masked, at_least, careful=True) or []


def _long_ranges(masked: bytes, at_least: int, *, careful: bool) -> list[tuple[int, int]] | None:
    """Find ranges of ``at_least`` bytes without a quote that begin inside a string, in text without escaped quotes."""
    ranges = []
    find, rfind = masked.find, masked.rfind
    quotes = counted = 0
    quote = find(b'"')
    last = len(masked) - at_least - 1
    while 0 <= quote < last:
        window = quote + 1 + at_least
        nearer = rfind(b'"', quote + 1, window)
        if nearer >= 0:
            quote = nearer
            continue
        end = find(b'"', window)
        quotes += masked.count(b'"', counted, quote)
        counted = quote
        opens = not quotes & 1
        if end < 0:
            if not careful:
                return None  # a string that nothing ends, or one that was taken for what stands between two
            break
        if not careful and (not opens or masked[quote + 1] in _NOT_INSIDE):
            return None
        if opens and not _is_key(masked, end):
            ranges.append((quote + 1, end))
        quote = end
    return ranges


def _is_key(masked: bytes, closing: int) -> bool:
    after = _AFTER.match(masked, closing + 1)
    return after is not None and after[1] == b":"


_PIECE = 8 << 20
_LONGEST_ESCAPE = 12
_BOUNDARY = re.compile(rb"[ -!#-\[\]-~]{%d}" % (_LONGEST_ESCAPE + 1))
_BASE64_HEAD = re.compile(rb"[A-Za-z0-9+/]+={0,2}")
_HEAD = 64

_js_bytes = msgspec.json.Encoder().encode
_js_text = msgspec.json.Decoder(str).decode

JSON_SPELLINGS = frozenset((Spelling.JS, Spelling.ASCII, Spelling.GO))


def write(spelling: int, content: bytes | memoryview) -> bytes | memoryview:
    """Return ``content`` as ``spelling`` writes it; DamageError where it cannot be (so it never was read from it)."""
    if spelling == Spelling.RAW:
        return content
    if spelling == Spelling.BASE64:
        return b2a_base64(content, newline=False)
    if spelling not in JSON_SPELLINGS:
        raise DamageError(f"unknown spelling {spelling}")
    try:
        if len(content) <= _PIECE:
            return _quoted(spelling, str(content, "utf-8"))
        return b"".join((b'"', *_quoted_pieces(spelling, content), b'"'))
    except UnicodeDecodeError as error:
        raise DamageError(f"content is not the text that its payload spells: {error}") from None


def read_literal(literal: bytes | memoryview) -> tuple[Spelling, bytes] | None:
    """Return spelling and content of a JSON string literal, quotes included; None where no spelling gives it back."""
    try:
        if len(literal) > _PIECE:
            return _read_large(memoryview(literal))
        literal = bytes(literal)
        text = _js_text(literal)
        content = text.encode()
    except (msgspec.DecodeError, UnicodeError):
        return None
    if _js_bytes(text) == literal:
        return Spelling.JS, content
    for spelling in (Spelling.ASCII, Spelling.GO):
        if _quoted(spelling, text) == literal:
            return spelling, content
    return None


def read_base64(encoded: bytes) -> bytes | None:
    """Return the bytes of canonical base64; None for anything else, and for empty bytes."""
    if len(encoded) % 4 or not _BASE64_HEAD.fullmatch(encoded[:_HEAD]):
        return None
    try:
        content = a2b_base64(encoded, strict_mode=True)
    except Base64Error:
        return None
    return content if b2a_base64(content, newline=False) == encoded else None


def _quoted(spelling: int, text: str) -> bytes:
    if spelling == Spelling.ASCII:
        # imported here, as only some tools write so
        from json import dumps

        return dumps(text).encode()
    quoted = _js_bytes(text)
    if spelling == Spelling.GO:
        for raw, escaped in _GO_ESCAPES:
            quoted = quoted.replace(raw, escaped)
    return quoted


_GO_ESCAPES = tuple((char.encode(), b"\\u%04x" % ord(char)) for char in "<>&\u2028\u2029")


def _character_pieces(content: bytes | memoryview) -> Iterator[bytes | memoryview]:
    """Yield content in pieces that end where a character of UTF-8 ends."""
    start = 0
    while start < len(content):
        stop = min(start + _PIECE, len(content))
        while stop < len(content) and stop > start and content[stop] & 0xC0 == 0x80:
            stop -= 1
        yield content[start : stop if stop > start else len(content)]
        start = stop if stop > start else len(content)


def _quoted_pieces(spelling: int, content: bytes | memoryview) -> Iterator[bytes]:
    for piece in _character_pieces(content):
        yield _quoted(spelling, str(piece, "utf-8"))[1:-1]


def _read_large(literal: memoryview) -> tuple[Spelling, bytes] | None:
    """As :func:`read_literal`, piece by piece; pieces end in plain characters, far from the end of any escape."""
    read = BytesIO()
    start, end = 1, len(literal) - 1
    while start < end:
        stop = end
        if end - start > _PIECE:
            plain = _BOUNDARY.search(literal, start + _PIECE - _LONGEST_ESCAPE, end)
            if plain:
                stop = plain.end()
        if stop - start > 2 * _PIECE:
            return None
        read.write(_js_text(b'"%b"' % bytes(literal[start:stop])).encode())
        start = stop
    content = read.getvalue()
    for spelling in (Spelling.JS, Spelling.ASCII, Spelling.GO):
        if _is_spelled(spelling, content, literal):
            return spelling, content
    return None


def _is_spelled(spelling: Spelling, content: bytes, literal: memoryview) -> bool:
    position = 1
    for piece in _quoted_pieces(spelling, content):
        if literal[position : position + len(piece)] != piece:
            return False
        position += len(piece)
    return position + 1 == len(literal)


_LOOKED_AT = 1 << 20


def is_text(data: bytes | memoryview) -> bool:
    """Return whether ``data`` is UTF-8 without NULs. Uses a few MB of memory at most."""
    decoder = getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(data), _LOOKED_AT):
            if "\0" in decoder.decode(data[start : start + _LOOKED_AT]):
                return False
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


MAX_CUT_BYTES = 64 << 20
"""Payloads larger than this are opaque: their blobs are chunked, never cut."""

_MOST_CUTS = 1 << 20
"""The most cuts of one payload: their table takes 41 MiB. A payload that would need more is left whole."""

_JSON_STARTS = frozenset(b'{["')
_BLANK_OR_BOM = b" \t\r\n\xef\xbb\xbf"
_LONGEST_BLANK = 64
_SHORTEST_BASE64 = 16
_SHORTEST_BARE_BASE64 = 64
_LONGEST_URL_HEAD = 160
_MIXED = re.compile(rb"(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])(?=[^0-9]*[0-9])")
"""Tells base64 from words, runs of one letter and hexadecimal digits, which are canonical base64 too."""

# what begins a system prompt or base64; the first letters by themselves make the search faster
_MAYBE_SPECIAL = re.compile(
    rb'"[sibdur](?:ystem["_PI]|nstructions"|ase_i|eveloper_i|ser_i|ole"\s*:\s*"[ds]|ata[":]|lob"|64_json")'
)
_ENCODED = re.compile(
    rb'"(?:(?:data|blob|b64_json)"\s*:\s*"(?P<base64>[A-Za-z0-9+/]{%d,}={0,2})(?=")'
    rb'|data:[^",\\]{0,%d};base64,(?P<url>[A-Za-z0-9+/]{%d,}={0,2})(?=")'
    rb")" % (_SHORTEST_BASE64 - 2, _LONGEST_URL_HEAD, _SHORTEST_BASE64 - 2)
)

_Piece = tuple[int, int, int, bytes]
"""A cut: its start and stop in the payload, its spelling, and the content."""


class Cut(Struct, frozen=True, gc=False):
    """A payload taken apart: the skeleton's ``body``, and the contents by hash, each once, in payload order."""

    body: bytes
    contents: list[tuple[Hash, bytes]]


def cut(payload: bytes, limit: int) -> Cut | None:
    """Cut a payload; None if nothing is to leave it.

    These leave: string values of ``limit`` bytes or more (UTF-8, before escaping; 0 = all that are not empty), system
    prompts, and base64 whose content is not text. Base64 leaves as the bytes that it stands for. Object keys never
    leave. Payloads that do not look like JSON and those over MAX_CUT_BYTES are left alone.
    """
    if not _looks_like_json(payload) or len(payload) > MAX_CUT_BYTES:
        return None
    pieces = _long_pieces(payload, limit)
    pieces = _with_special_pieces(payload, pieces)
    if not pieces or len(pieces) > _MOST_CUTS:
        return None
    table: list[tuple[int, int, int, Hash]] = []
    rest: list[bytes] = []
    contents: dict[Hash, bytes] = {}
    position = 0
    for start, stop, spelling, content in pieces:
        digest = hash_bytes(content)
        contents[digest] = content
        table.append((start, stop - start, spelling, digest))
        rest.append(payload[position:start])
        position = stop
    rest.append(payload[position:])
    return Cut(skeleton_format.encode(len(payload), table, rest), list(contents.items()))


def join(skeleton: skeleton_format.Skeleton, contents: Mapping[Hash, bytes]) -> bytes:
    """Join a decoded skeleton and its contents into a payload.

    Raises DamageError where a content is not of the length that was cut out; the caller compares the result with the
    payload's hash.
    """
    rest = skeleton.rest
    pieces: list[bytes | memoryview] = []
    position = moved = 0
    for offset, length, spelling, digest in skeleton.cuts:
        spelled = write(spelling, contents[digest])
        if len(spelled) != length:
            raise DamageError(f"content {digest.hex()} does not fit the place that it was cut from")
        stop = offset - moved
        pieces += (rest[position:stop], spelled)
        position = stop
        moved += length
    pieces.append(rest[position:])
    return b"".join(pieces)


def _looks_like_json(payload: bytes) -> bool:
    if not payload:
        return False
    if payload[0] in _JSON_STARTS:
        return True
    start = payload[:_LONGEST_BLANK].lstrip(_BLANK_OR_BOM)
    return bool(start) and start[0] in _JSON_STARTS


def _long_pieces(payload: bytes, limit: int) -> list[_Piece]:
    at_least = max(limit, 1)
    if len(payload) <= at_least:
        return []
    ranges = find_literals(payload, at_least)
    if ranges is not None:
        pieces = _read_ranges(payload, ranges, at_least)
        if pieces is not None:
            return pieces
    ranges = find_literals_carefully(payload, at_least)
    pieces = _read_ranges(payload, ranges, at_least)
    if pieces is not None:
        return pieces
    return _read_ranges(payload, ranges, at_least, raw=True) or []


def _read_ranges(
    payload: bytes, ranges: Sequence[tuple[int, int]], at_least: int, *, raw: bool = False
) -> list[_Piece] | None:
    """Read literals; None where a range is no JSON string, unless ``raw``: then such leave as they are."""
    pieces: list[_Piece] = []
    for start, stop in ranges:
        if payload.find(b"\\", start, stop) < 0:
            pieces.append(_plain_piece(payload, start, stop))
            continue
        read = read_literal(memoryview(payload)[start - 1 : stop + 1])
        if read is None:
            if not raw:
                return None
            pieces.append((start, stop, Spelling.RAW, payload[start:stop]))
        elif len(read[1]) >= at_least:
            pieces.append((start - 1, stop + 1, *read))
    return pieces


def _plain_piece(payload: bytes, start: int, stop: int) -> _Piece:
    """Cut a literal without escapes: base64, a data URL, or text that stands for itself."""
    literal = payload[start:stop]
    head = literal[:_LONGEST_URL_HEAD]
    if head.startswith(b"data:") and b";base64," in head:
        skipped = head.index(b";base64,") + len(b";base64,")
        content = read_base64(literal[skipped:])
        if content:
            return start + skipped, stop, Spelling.BASE64, content
    elif len(literal) >= _SHORTEST_BARE_BASE64 and _MIXED.match(head):
        content = read_base64(literal)
        if content:
            return start, stop, Spelling.BASE64, content
    return start, stop, Spelling.RAW, literal


def _with_special_pieces(payload: bytes, pieces: list[_Piece]) -> list[_Piece]:
    """Add what leaves at any size, from between the pieces that leave already."""
    merged: list[_Piece] = []
    position = 0
    has_prompts = False
    for piece in (*pieces, None):
        end = piece[0] if piece else len(payload)
        while maybe := _MAYBE_SPECIAL.search(payload, position, end):
            position = maybe.end()
            match = _ENCODED.match(payload, maybe.start(), end)
            special = _encoded_piece(match) if match else None
            has_prompts = has_prompts or (match is None and MARK.match(payload, maybe.start()) is not None)
            if special:
                merged.append(special)
                position = special[1]
        if piece:
            merged.append(piece)
            position = piece[1]
    return _with_prompts(payload, merged) if has_prompts else merged


def _encoded_piece(match: re.Match[bytes]) -> _Piece | None:
    """Cut a match of :data:`_ENCODED`, unless it is text, or is not base64 after all."""
    group = "url" if match["url"] else "base64"
    encoded = match[group]
    content = read_base64(encoded) if group == "url" or _MIXED.match(encoded) else None
    return (*match.span(group), Spelling.BASE64, content) if content and not is_text(content) else None


def _with_prompts(payload: bytes, pieces: list[_Piece]) -> list[_Piece]:
    """Add system prompts, from between the pieces that leave already."""
    waiting = iter((*pieces, None))
    merged: list[_Piece] = []
    piece = next(waiting)
    for start, stop in find_prompts(payload):
        while piece and piece[1] < start:
            merged.append(piece)
            piece = next(waiting)
        # its quotes may leave, too
        if piece is None or stop < piece[0]:
            merged.append(_literal_piece(payload, start, stop))
    return merged + [left for left in (piece, *waiting) if left]


def _literal_piece(payload: bytes, start: int, stop: int) -> _Piece:
    """Cut the string between two quotes."""
    read = read_literal(payload[start - 1 : stop + 1]) if payload.find(b"\\", start, stop) >= 0 else None
    return (start - 1, stop + 1, *read) if read else (start, stop, Spelling.RAW, payload[start:stop])
