"""New string literals for a payload, spelled as its producer would spell them.

Producers differ in what they escape. The style is the one that gives back the literal that the new one replaces;
where several do, or none does, the record's other literals decide, and JavaScript's style where they do not.
"""

import re
from binascii import b2a_base64
from collections import Counter

from store.content.spelling import read_literal, write
from store.disk.skeleton_format import Spelling
from store.errors import UsageError
from store.formats.json_spans import literals

_STYLES = (Spelling.JS, Spelling.ASCII, Spelling.GO)
_telling = re.compile(rb"[<>&\x7f-\xff]|\\u").search
"""Found in every literal that the styles spell differently."""


def spell(text: str, payload: bytes, replaced: bytes | None = None) -> bytes:
    """Return the literal for ``text``, quotes included, in the style of ``replaced`` or else of ``payload``.

    Raises UsageError for what is no valid Unicode.
    """
    content = encoded(text)
    return bytes(write(_style(content, payload, replaced), content))


def spell_base64(text: str) -> bytes:
    """Return the literal that holds ``text`` in base64. Raises UsageError for what is no valid Unicode."""
    return b'"%b"' % b2a_base64(encoded(text), newline=False)


def encoded(text: str) -> bytes:
    """Return ``text`` in UTF-8. Raises UsageError for what is no valid Unicode."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        where = f"character {error.start + 1} is half of a surrogate pair"
        raise UsageError(f"the text is no valid Unicode: {where}; write the whole character or leave it out") from None


def _style(content: bytes, payload: bytes, replaced: bytes | None) -> Spelling:
    if len({bytes(write(style, content)) for style in _STYLES}) == 1:
        return Spelling.JS
    fitting = [style for style in _STYLES if replaced is not None and _spells(style, replaced)] or list(_STYLES)
    if len(fitting) == 1:
        return fitting[0]
    votes = Counter({style: 0 for style in fitting})
    for literal in literals(payload):
        if _telling(literal):
            votes.update(style for style in fitting if _spells(style, literal))
    return votes.most_common(1)[0][0]


def _spells(style: Spelling, literal: bytes) -> bool:
    read = read_literal(literal)
    return read is not None and bytes(write(style, read[1])) == literal
