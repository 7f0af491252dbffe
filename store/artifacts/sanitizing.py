"""Output of a tool made fit to be read: no control sequences, valid UTF-8, one line a line."""

from __future__ import annotations

import re
from codecs import getincrementaldecoder

_LONGEST = 64 << 10
"""Characters of a sequence that may still end; one that is longer is none."""

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_C1 = re.compile(r"[\x90\x98\x9b\x9d-\x9f]")
_AS_ESCAPES = str.maketrans(
    {character: f"\x1b{chr(ord(character) - 0x40)}" for character in "\x90\x98\x9b\x9d\x9e\x9f"}
)
"""How the characters that begin a sequence are spelled in ASCII."""

# every one begins with a literal, which is what makes looking for them fast
_SEQUENCES = re.compile(
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # CSI: colours, moves of the cursor
    r"|\][^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)"  # OSC: titles, links
    r"|[PX^_][^\x1b\x9c]*(?:\x1b\\|\x9c)"  # DCS, SOS, PM, APC: images, and what terminals say
    r"|[ -/]*[0-~])"
)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b\x9c\n]*\x1b?|[PX^_][^\x1b\x9c]*\x1b?|[ -/]*)\Z|\r\Z")


class Sanitizer:
    """Takes output in pieces, however it is cut, and gives back text.

    Escape sequences of terminals (ECMA-48: CSI, OSC, DCS, SOS, PM, APC, and those of two characters, also where they
    begin with a C1 control) are left out, and so are all other control characters but newline and tab. A carriage
    return, with a newline or without, is a newline: what a progress bar writes over becomes lines. Bytes that are no
    UTF-8 become U+FFFD.
    """

    def __init__(self) -> None:
        self._decode = getincrementaldecoder("utf-8")("replace").decode
        self._held = ""
        """What may be the beginning of a sequence."""

    def feed(self, data: bytes) -> str:
        """Return what can be told of the output so far, after what was returned before."""
        text = self._held + self._decode(data)
        self._held = ""
        if _CONTROLS.search(text) is None:
            return text
        if _C1.search(text):
            text = text.translate(_AS_ESCAPES)
        unfinished = _UNFINISHED.search(text)
        if unfinished is not None and len(unfinished[0]) <= _LONGEST:
            self._held = unfinished[0]
            text = text[: unfinished.start()]
        return _shown(text)

    def finish(self) -> str:
        """Return the rest: the output has ended."""
        text = self._held + self._decode(b"", True)
        self._held = ""
        return _shown(text)


def _shown(text: str) -> str:
    if "\x1b" in text:
        text = _SEQUENCES.sub("", text)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROLS.sub("", text)
