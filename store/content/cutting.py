"""Which strings leave a payload for blobs of their own, and how they come back.

Bytes are cut, never re-serialized: what is left of a payload is its own bytes, and each content that left is spelled
back the way it was, which is tried before it is cut. So any bytes at all survive :func:`cut` and :func:`splice`
unchanged; JSON only says where cutting pays.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from store.content.literals import find_literals, find_literals_carefully
from store.content.spelling import read_base64, read_literal, write
from store.content.text import is_text
from store.disk import skeleton_format
from store.disk.skeleton_format import Spelling
from store.errors import DamageError
from store.ids import Hash, hash_bytes

MAX_CUT_BYTES = 64 << 20
"""Payloads larger than this are opaque: their blobs are chunked, never cut."""

_MOST_CUTS = 1 << 20
"""A table of so many takes 41 MiB; a payload that would need more is left whole."""

references = skeleton_format.references

_JSON_STARTS = frozenset(b'{["')
_BLANK_OR_BOM = b" \t\r\n\xef\xbb\xbf"
_LONGEST_BLANK = 64
_SHORTEST_BASE64 = 16
_SHORTEST_BARE_BASE64 = 64
_LONGEST_URL_HEAD = 160
_MIXED = re.compile(rb"(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])(?=[^0-9]*[0-9])")
"""Tells base64 from words, runs of one letter and hexadecimal digits, which are canonical base64 too."""

_MAYBE_SPECIAL = re.compile(
    rb'"(?:system[^a-z ]|data[":]|blob"|b64_json"|instructions"|base_i|developer_i|user_i|role":\s*"sys)'
)
_SPECIAL = re.compile(
    rb'"(?:'
    # a system prompt under a name that means nothing else
    rb"(?P<prompt>(?:system_?[pP]rompt|system_?[iI]nstructions?|(?:base|developer|user)_instructions"
    rb')"\s*:\s*(?:\{\s*"text"\s*:\s*)?"'
    rb'|role"\s*:\s*"system"\s*,\s*"content"\s*:\s*")'
    # one under a name that others use too
    rb'|(?P<maybe>(?:system|instructions)"\s*:\s*")'
    # base64
    rb'|(?:data|blob|b64_json)"\s*:\s*"(?P<base64>[A-Za-z0-9+/]{%d,}={0,2})(?=")'
    rb'|data:[^",\\]{0,%d};base64,(?P<url>[A-Za-z0-9+/]{%d,}={0,2})(?=")'
    rb")" % (_SHORTEST_BASE64 - 2, _LONGEST_URL_HEAD, _SHORTEST_BASE64 - 2)
)
_REST_OF_LITERAL = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+(?=")', re.DOTALL)

_Piece = tuple[int, int, int, bytes]
"""Where a cut begins and stops in the payload, its spelling, and the content."""


class Cut(Struct, frozen=True, gc=False):
    """A payload taken apart: the skeleton's ``body``, and the contents by hash, each once, in payload order."""

    body: bytes
    contents: list[tuple[Hash, bytes]]


def cut(payload: bytes, limit: int) -> Cut | None:
    """Take apart a payload; None where nothing is to leave it.

    What leaves: string values of ``limit`` bytes or more (UTF-8, before escaping; 0 = all that are not empty), system
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


def splice(body: bytes | memoryview, fetch: Callable[[list[Hash]], Mapping[Hash, bytes]]) -> bytes:
    """Put a payload together again.

    ``fetch`` is asked once for all contents, and only where there are any. Raises DamageError where the body is
    damaged or a content is not of the length that was cut out; the caller compares the result with the payload's hash.
    """
    skeleton = skeleton_format.decode(body)
    contents = fetch([entry[3] for entry in skeleton.cuts]) if skeleton.cuts else {}
    return join(skeleton, contents)


def join(skeleton: skeleton_format.Skeleton, contents: Mapping[Hash, bytes]) -> bytes:
    """Put a payload together from a decoded skeleton and its contents; errors as in :func:`splice`."""
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
        read = read_literal(payload[start - 1 : stop + 1])
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
    for piece in (*pieces, None):
        end = piece[0] if piece else len(payload)
        while maybe := _MAYBE_SPECIAL.search(payload, position, end):
            position = maybe.end()
            match = _SPECIAL.match(payload, maybe.start(), end)
            special = _special_piece(payload, match, end) if match else None
            if special:
                merged.append(special)
                position = special[1]
        if piece:
            merged.append(piece)
            position = piece[1]
    return merged


def _special_piece(payload: bytes, match: re.Match[bytes], end: int) -> _Piece | None:
    """Cut what :data:`_SPECIAL` found, if it lies before ``end`` and is what its name promises."""
    for group in ("base64", "url"):
        encoded = match[group]
        if encoded:
            content = read_base64(encoded) if group == "url" or _MIXED.match(encoded) else None
            if content and not is_text(content):
                return *match.span(group), Spelling.BASE64, content
            return None
    start = match.end()
    literal = _REST_OF_LITERAL.match(payload, start, end)
    if literal is None or not literal[0] or (match["maybe"] and b" " not in literal[0]):
        return None
    stop = literal.end()
    if b"\\" in literal[0]:
        read = read_literal(payload[start - 1 : stop + 1])
        if read:
            return start - 1, stop + 1, *read
    return start, stop, Spelling.RAW, literal[0]
