"""Markdown that people and models wrote, as HTML that can do no harm: no tags of its own, nothing that is loaded."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

_LONGEST = 64 << 10
_MOST_BRACKETS = 2000
"""Beyond this, looking for the ends of links takes too long."""


def html_of(text: str) -> str:
    """Return ``text`` as HTML; what is long, or would take long, as it is."""
    if len(text) > _LONGEST or text.count("[") > _MOST_BRACKETS:
        return f'<pre dir="auto">{escape(text)}</pre>'
    # what it annotates as Any is str
    rendered: str = _markdown.render(text)
    return rendered


def _as_link(
    renderer: RendererHTML,
    tokens: Sequence[Token],
    at: int,
    options: OptionsDict,
    environment: MutableMapping[str, Any],  # type of the library's own
) -> str:
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


_REL = "noopener noreferrer"
_markdown = MarkdownIt("js-default", {"html": False, "linkify": False, "breaks": True})
_markdown.add_render_rule("image", _as_link)
_markdown.add_render_rule("link_open", _opened_link)
