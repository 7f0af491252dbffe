"""Texts as HTML: what people and models write, and code in colour."""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping, Sequence
from functools import cache
from html import escape
from pathlib import PurePosixPath
from time import thread_time
from typing import Any, Protocol

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict
from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]  # it has no types
from pygments.token import (  # type: ignore[import-untyped]  # the same
    Comment,
    Keyword,
    Name,
    Number,
    Operator,
    String,
)

_LONGEST = 64 << 10
_MOST_BRACKETS = 2000
"""Beyond this, looking for the ends of links takes too long."""
_LONGEST_CODE = 16 << 10
_LONGEST_LINE = 2000
_PAGE_OF_CODE = 192 << 10
"""The most characters of one page that are coloured: about half a second of work."""
_MOST_SECONDS = 2.0
"""Beyond this, code stays plain: some texts are made so that a lexer takes long."""
_controls = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f]")
_COLOURS: dict[TokenType | None, str] = {
    Comment: "c",
    Keyword: "k",
    Operator.Word: "k",
    Name.Tag: "k",
    String: "s",
    Number: "n",
    Name.Constant: "n",
    Name.Function: "f",
    Name.Class: "f",
    Name.Decorator: "f",
    Name.Attribute: "f",
}


def clean(text: str) -> str:
    """Return text without controls, which no page can hold; marks of direction end with the paragraph they are in."""
    return _controls.sub("\ufffd", text)


class Lexer(Protocol):
    """As much of a lexer of pygments as is needed here."""

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, TokenType, str]]:
        """Yield the pieces of a text, each with its place."""


class TokenType(Protocol):
    """A kind of token, which is a kind of another one."""

    parent: TokenType | None

    def __hash__(self) -> int: ...


class Ink:
    """Colours code, as long as there is some left for a page."""

    def __init__(self) -> None:
        self._left = _PAGE_OF_CODE
        self._seconds = _MOST_SECONDS

    def code(self, text: str, language: str) -> str:
        """Return code as HTML, in colour if its language is known: by its name, or by that of a file."""
        return "\n".join(self.lines(text, language))

    def lines(self, text: str, language: str) -> list[str]:
        """Return the lines of code as HTML."""
        lexer = _lexer(language) if language else None
        too_long = len(text) > min(_LONGEST_CODE, self._left)
        if lexer is None or too_long or any(len(line) > _LONGEST_LINE for line in text.split("\n")):
            return escape(text).split("\n")
        self._left -= len(text)
        pieces: list[str] = []
        began = thread_time()
        for piece in _coloured(lexer, text):
            pieces.append(piece)
            if thread_time() - began > self._seconds:
                self._left = 0
                return escape(text).split("\n")
        self._seconds -= thread_time() - began
        return "".join(pieces).split("\n")


def _coloured(lexer: Lexer, text: str) -> Iterator[str]:
    """Yield code in pieces of one colour; none goes beyond its line."""
    # what a lexer does to a text before it begins is left out: the text stays as it is
    for _at, kind, value in lexer.get_tokens_unprocessed(text):
        colour = _colour(kind)
        if not colour or value.isspace():
            yield escape(value)
            continue
        for number, line in enumerate(value.split("\n")):
            yield "\n" * (number > 0) + (f'<i class="{colour}">{escape(line)}</i>' if line else "")


@cache
def _colour(kind: TokenType | None) -> str:
    while kind is not None and kind not in _COLOURS:
        kind = kind.parent
    return _COLOURS.get(kind, "")


_NAMES = {
    "bash": "bash sh shell zsh",
    "c": "h",
    "cpp": "c++ cc cxx hpp",
    "csharp": "cs c#",
    "css": "scss",
    "docker": "dockerfile",
    "go": "golang",
    "html": "htm vue svelte",
    "ini": "cfg conf",
    "java": "",
    "javascript": "js jsx mjs cjs",
    "json": "jsonc ipynb",
    "kotlin": "kt",
    "lua": "",
    "make": "makefile mk",
    "php": "",
    "python": "py pyi python3",
    "ruby": "rb",
    "rust": "rs",
    "sql": "",
    "swift": "",
    "toml": "",
    "typescript": "ts tsx",
    "xml": "svg",
    "yaml": "yml",
}
"""The languages that are coloured, with the other names and the endings of files that they go by."""
_LANGUAGES = {name: language for language, names in _NAMES.items() for name in (language, *names.split())}


def _lexer(language: str) -> Lexer | None:
    name = _LANGUAGES.get(language.lower())
    return _lexer_named(name) if name else None


@cache
def _lexer_named(name: str) -> Lexer:
    lexer: Lexer = get_lexer_by_name(name)
    return lexer


def language_of(path: str) -> str:
    """Return the name that the language of a file goes by: the ending of the file, or all of its name."""
    return PurePosixPath(path).suffix[1:] or PurePosixPath(path).name


# -- prose -------------------------------------------------------------------------------------------------------------


def html_of(text: str, ink: Ink | None = None) -> str:
    """Return ``text`` as HTML; text that is long, or would take long, stays plain."""
    if len(text) > _LONGEST or text.count("[") > _MOST_BRACKETS:
        return f'<pre dir="auto">{escape(text)}</pre>'
    # what it annotates as Any is str
    rendered: str = _markdown.render(text, {"ink": ink or Ink()})
    return rendered


def _as_link(_renderer: RendererHTML, tokens: Sequence[Token], at: int, *_context: object) -> str:
    """Return a link in the place of an image: a page that loads images tells somebody who reads it."""
    token = tokens[at]
    where = str(token.attrs.get("src", ""))
    return f'<a href="{escape(where)}" rel="{_REL}">{escape(token.content or where)}</a>'


def _opened_link(
    renderer: RendererHTML,
    tokens: Sequence[Token],
    at: int,
    options: OptionsDict,
    environment: MutableMapping[str, Any],  # type of the library's own
) -> str:
    tokens[at].attrSet("rel", _REL)
    return renderer.renderToken(tokens, at, options, environment)


def _fence(
    _renderer: RendererHTML,
    tokens: Sequence[Token],
    at: int,
    _options: OptionsDict,
    environment: MutableMapping[str, Any],  # type of the library's own
) -> str:
    ink: Ink = environment["ink"]
    language, code = tokens[at].info.split(), tokens[at].content.removesuffix("\n")
    if language[:1] in (["diff"], ["patch"]):
        return diff(code, ink)
    return f"<pre><code>{ink.code(code, language[0] if language else '')}</code></pre>\n"


def _heading(
    renderer: RendererHTML,
    tokens: Sequence[Token],
    at: int,
    options: OptionsDict,
    environment: MutableMapping[str, Any],  # type of the library's own
) -> str:
    """Return the tag of a heading, below those of the page: 2 for a request, 3 for an answer."""
    tokens[at].tag = f"h{min(int(tokens[at].tag[1:]) + 3, 6)}"
    return renderer.renderToken(tokens, at, options, environment)


_REL = "noopener noreferrer"
_markdown = MarkdownIt("js-default", {"html": False, "linkify": False, "breaks": True})
_markdown.add_render_rule("image", _as_link)
_markdown.add_render_rule("link_open", _opened_link)
_markdown.add_render_rule("fence", _fence)
_markdown.add_render_rule("heading_open", _heading)
_markdown.add_render_rule("heading_close", _heading)


_DIFF_LINES = {"+": "ins", "-": "del", "@": "b"}


def diff(text: str, ink: Ink, language: str = "") -> str:
    """Return the lines of a diff, on what tells those added from those removed."""
    shown = []
    lines = text.split("\n")
    coloured = ink.lines("\n".join(line[1:] for line in lines), language)
    for line, code in zip(lines, coloured, strict=True):
        tag = None if line.startswith(("+++ ", "--- ")) else _DIFF_LINES.get(line[:1])
        inside = escape(line) if tag == "b" else f"{escape(line[:1])}{code}"
        shown.append(f"<{tag}>{inside}</{tag}>" if tag else f"{inside}\n")
    return f'<pre class="diff">{"".join(shown).removesuffix(_END)}</pre>\n'


_END = "\n"
