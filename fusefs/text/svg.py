"""Pieces of SVG drawings: colours for light and dark, text that fits, elements with what they mean.

Drawings need nothing from outside and run no scripts. Colours are classes, so that one style sheet has them for both
kinds of screens. Text is text, in whatever sans-serif there is, so how wide it gets can only be guessed.
"""

from __future__ import annotations

from collections.abc import Iterable
from xml.sax.saxutils import escape as _escape
from xml.sax.saxutils import quoteattr

_NARROW = frozenset("fijlrtI.,:;'|!()[] ")
_WIDE = frozenset("mwMWQOGDHNU@%_")

_SEEN = {character: " " for character in (*range(0x20), *range(0x7F, 0xA0), 0xFFFE, 0xFFFF)}

# Okabe and Ito's colours, which most people can tell apart, a little lighter in the dark.
_STYLE = """
svg { background: #ffffff; font: 13px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
.page { fill: #ffffff } .grid { stroke: #dde0e6; stroke-width: 1 }
text { fill: #1c2330 } .dim { fill: #5c6675 } .big { font-size: 24px; font-weight: 600 }
.head { font-size: 15px; font-weight: 600 } .small { font-size: 11px }
.on { font-weight: 600 } .on.a, .on.c, .on.f { fill: #ffffff } .on.b, .on.d, .on.e { fill: #0d1015 }
.a { fill: #0072b2 } .b { fill: #e69f00 } .c { fill: #009e73 } .d { fill: #cc79a7 } .e { fill: #56b4e9 }
.f { fill: #d55e00 } .rest { fill: #c3c9d3 }
path.line { fill: none; stroke-width: 3; stroke-linecap: round; stroke-linejoin: round }
.line.a { stroke: #0072b2 } .line.b { stroke: #e69f00 } .line.c { stroke: #009e73 } .line.d { stroke: #cc79a7 }
.line.e { stroke: #56b4e9 } .line.f { stroke: #d55e00 }
path.line.rest { stroke: #a9b1be; stroke-width: 2; stroke-dasharray: 1 6 }
a:hover text { text-decoration: underline }
@media (prefers-color-scheme: dark) {
svg { background: #14171d } .page { fill: #14171d } .grid { stroke: #343b47 }
text { fill: #e8ebf0 } .dim { fill: #9aa5b5 }
.a { fill: #4aa8e0 } .b { fill: #f0b73c } .c { fill: #35c69c } .d { fill: #e29cc4 } .e { fill: #86cbf3 }
.f { fill: #f0834a } .rest { fill: #4a5362 }
.on.a, .on.b, .on.c, .on.d, .on.e, .on.f { fill: #0d1015 }
.line.a { stroke: #4aa8e0 } .line.b { stroke: #f0b73c } .line.c { stroke: #35c69c } .line.d { stroke: #e29cc4 }
.line.e { stroke: #86cbf3 } .line.f { stroke: #f0834a } .line.rest { stroke: #6b7687 }
}
"""


def shown(text: str) -> str:
    """Return ``text`` as XML can say it, on one line."""
    visible = text.translate(_SEEN).encode("utf-8", "replace").decode()
    return _escape(" ".join(visible.split()))


def attribute(value: str) -> str:
    """Return a value of an attribute, with its quotes."""
    return quoteattr(value.translate(_SEEN).encode("utf-8", "replace").decode())


def width_of(text: str, size: float = 13, *, bold: bool = False) -> float:
    """Return about how wide ``text`` gets in a font of ``size`` pixels: seldom less than it does."""
    units = sum(1.0 if ord(c) > 0x2E80 else 0.38 if c in _NARROW else 0.9 if c in _WIDE else 0.62 for c in text)
    return units * size * (1.14 if bold else 1.0)


def fitting(text: str, room: float, size: float = 13, *, bold: bool = False) -> str:
    """Return as much of ``text`` as fits into ``room`` pixels, with an ellipsis where something is left out."""
    text = " ".join(text.split())
    if width_of(text, size, bold=bold) <= room:
        return text
    while text and width_of(text + "…", size, bold=bold) > room:
        text = text[:-1]
    return text.rstrip() + "…"


def text(x: float, y: float, words: str, classes: str = "", *, end: bool = False, middle: bool = False) -> str:
    """Return a text whose baseline begins at a point; or has its ``end`` or ``middle`` there."""
    anchor = ' text-anchor="end"' if end else ' text-anchor="middle"' if middle else ""
    class_ = f' class="{classes}"' if classes else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{class_}{anchor}>{shown(words)}</text>'


def bar(x: float, y: float, width: float, height: float, classes: str, told: str = "", *, round_: float = 3) -> str:
    """Return a bar; ``told`` is what it means, for who cannot see it or points at it."""
    radius = min(round_, width / 2, height / 2)
    shape = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius:.1f}"'
    if not told:
        return f'<rect {shape} class="{classes}"/>'
    return f'<rect {shape} class="{classes}"><title>{shown(told)}</title></rect>'


def document(width: float, height: float, title: str, told: str, pieces: Iterable[str]) -> bytes:
    """Return a drawing. ``title`` and ``told`` are read to who cannot see it."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}"'
        f' height="{height:.0f}" role="img" aria-labelledby="title told">'
    )
    lines = [
        head,
        f'<title id="title">{shown(title)}</title>',
        f'<desc id="told">{shown(told)}</desc>',
        f"<style>{_STYLE}</style>",
        f'<rect class="page" width="{width:.0f}" height="{height:.0f}"/>',
        *pieces,
        "</svg>",
    ]
    return ("\n".join(lines) + "\n").encode()
