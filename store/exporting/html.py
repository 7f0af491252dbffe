"""HTML: a conversation as one page that needs nothing else, for browsers of any size."""

import re
from base64 import b64encode
from collections.abc import Iterator, MutableMapping, Sequence
from hashlib import sha256
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

from store import visible
from store.errors import ConvfsError
from store.events.conversation import Conversation, EventRow
from store.events.event import Block, Event, Kind, utf8
from store.exporting.event_json import told_events
from store.exporting.target import ExportJob
from store.formats.core.media import suffix_of
from store.formats.core.times import iso

_LIGHT = """
    --page: #fbfbfa; --card: #fff; --ink: #1c1c1a; --dim: #5f5f5a; --line: #dcdcd6; --code: #f1f1ed; --link: #0b57a4;
    --user: #0b57a4; --model: #6b3fa0; --tool: #7a5a00; --bad: #b3261e; color-scheme: light;
"""
_DARK = """
    --page: #161615; --card: #1f1f1d; --ink: #e8e8e3; --dim: #a3a39b; --line: #3a3a36; --code: #2a2a27; --link: #8ab8f0;
    --user: #8ab8f0; --model: #c9a8f0; --tool: #e0bd5a; --bad: #ff8a80; color-scheme: dark;
"""
STYLE = f"""
:root {{{_LIGHT}}}
@media (prefers-color-scheme: dark) {{ :root {{{_DARK}}} }}
:root:has(#light:checked) {{{_LIGHT}}}
:root:has(#dark:checked) {{{_DARK}}}
* {{ box-sizing: border-box; }}
html {{ -webkit-text-size-adjust: 100%; }}
body {{
    margin: 0 auto; padding: 1rem; max-width: 56rem; background: var(--page); color: var(--ink);
    font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: anywhere;
}}
a {{ color: var(--link); }}
h1 {{ font-size: 1.4rem; line-height: 1.25; margin: 0 0 .4rem; }}
.about, .theme, article > header, summary small {{ color: var(--dim); font-size: .85rem; }}
.theme {{ border: 0; margin: 0 0 1rem; padding: 0; }}
.theme label {{ display: inline-block; padding: .3rem .8rem .3rem 0; }}
article {{
    margin: 0 0 .8rem; padding: .6rem .8rem; background: var(--card); border: 1px solid var(--line);
    border-left: .25rem solid var(--line); border-radius: .4rem; content-visibility: auto;
    contain-intrinsic-size: auto 6rem;
}}
article:target {{ outline: 2px solid var(--link); }}
article > header a {{ color: inherit; text-decoration: none; }}
article.user, article.answer {{ border-left-color: var(--user); }}
article.assistant, article.reasoning, article.question {{ border-left-color: var(--model); }}
article.tool_call, article.tool_result {{ border-left-color: var(--tool); }}
article.failed {{ border-left-color: var(--bad); }}
article.failed header b {{ color: var(--bad); }}
.text :is(h1, h2, h3, h4, h5, h6) {{ font-size: 1.1rem; line-height: 1.3; margin: 1rem 0 .4rem; }}
.text > :first-child, figure > :last-child {{ margin-top: .3rem; }}
.text > :last-child {{ margin-bottom: .2rem; }}
summary {{ cursor: pointer; padding: .3rem 0; }}
pre {{
    margin: .3rem 0; padding: .6rem; background: var(--code); border-radius: .3rem; white-space: pre-wrap;
    font: .85rem/1.45 ui-monospace, monospace; tab-size: 4;
}}
code {{ font-family: ui-monospace, monospace; font-size: .9em; background: var(--code); border-radius: .2rem; }}
pre code {{ font-size: inherit; background: none; }}
figure {{ margin: .4rem 0; }}
figcaption {{ color: var(--dim); font: .8rem ui-monospace, monospace; }}
img {{ max-width: 100%; height: auto; }}
table {{ display: block; max-width: 100%; overflow-x: auto; border-collapse: collapse; }}
th, td {{ border: 1px solid var(--line); padding: .2rem .5rem; overflow-wrap: normal; }}
blockquote {{ margin: .5rem 0; padding-left: .8rem; border-left: .2rem solid var(--line); color: var(--dim); }}
ol, ul {{ padding-left: 1.4rem; }}
@media print {{ .theme {{ display: none; }} article {{ content-visibility: visible; }} }}
"""

_STYLE_HASH = b64encode(sha256(STYLE.encode()).digest()).decode()

POLICY = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; img-src data:; base-uri 'none'; form-action 'none'"
"""Nothing is loaded and nothing runs, whatever the conversation holds."""

THEMES = """<fieldset class="theme" aria-label="Colours">
<label><input type="radio" name="theme" id="auto" checked> as the system</label>
<label><input type="radio" name="theme" id="light"> light</label>
<label><input type="radio" name="theme" id="dark"> dark</label>
</fieldset>
"""
"""Works without a script: the style looks at which one is chosen."""


_LONGEST = 64 << 10
_MOST_BRACKETS = 2000
"""Beyond this, looking for the ends of links takes too long."""


def html_of(text: str) -> str:
    """Return ``text`` as HTML; text that is long, or would take long, stays plain."""
    if len(text) > _LONGEST or text.count("[") > _MOST_BRACKETS:
        return f'<pre dir="auto">{escape(text)}</pre>'
    # what it annotates as Any is str
    rendered: str = _markdown.render(text)
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


_REL = "noopener noreferrer"
_markdown = MarkdownIt("js-default", {"html": False, "linkify": False, "breaks": True})
_markdown.add_render_rule("image", _as_link)
_markdown.add_render_rule("link_open", _opened_link)


_OPEN = frozenset((Kind.USER, Kind.ASSISTANT, Kind.SUMMARY, Kind.QUESTION, Kind.ANSWER))
_WORDS = {Kind.TOOL_CALL: "call", Kind.TOOL_RESULT: "result"}
_SHOWN_AS_IMAGES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml", "image/avif"))
_LONGEST_PREVIEW = 80
_controls = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f]")


def page(job: ExportJob) -> Iterator[bytes]:
    """Yield the pieces of one page: messages are open, the work of tools is folded up."""
    yield utf8(_head(job.conversation))
    for row, event in told_events(job):
        yield utf8(_article(row, event))
    yield b"</main>\n</body>\n</html>\n"


def _head(conversation: Conversation) -> str:
    title = escape(visible.line(" ".join((conversation.title or conversation.name).split())))
    about = [conversation.project, conversation.format, iso(conversation.created_ms)[:16].replace("T", " ")]
    about.append(f"{conversation.events} events")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{STYLE}</style>
</head>
<body>
<header>
<h1 dir="auto">{title}</h1>
<p class="about">{escape(visible.line(" · ".join(filter(None, about))))}</p>
{THEMES}</header>
<main>
"""


def _article(row: EventRow, event: Event | ConvfsError) -> str:
    number, kind = row.number, row.kind
    word = _WORDS.get(kind, kind.name.lower())
    if isinstance(event, ConvfsError):
        body = f"<p>cannot be read: {escape(visible.line(str(event)))}</p>"
        return _framed(number, kind.name.lower(), f"<header>{_mark(number)} <b>{word}</b></header>\n{body}")
    failed = any(key.startswith("is_error") and value is True for key, value in event.header.items())
    names = f"{kind.name.lower()} failed" if failed else kind.name.lower()
    tool = f" <code>{escape(visible.line(event.tool))}</code>" if event.tool else ""
    time = iso(event.time_ms)
    shown = time[:16].replace("T", " ")
    stamp = f' <time datetime="{time}">{shown}</time>' if time else ""
    head = f"<header>{_mark(number)} <b>{word}{' failed' if failed else ''}</b>{tool}{stamp}</header>"
    blocks = "\n".join(_block(block, kind) for block in event.blocks)
    if kind not in _OPEN and event.blocks:
        preview = escape(_preview(event))
        blocks = f"<details><summary><small>{preview}</small></summary>\n{blocks}\n</details>"
    return _framed(number, names, f"{head}\n{blocks}")


def _framed(number: int, names: str, content: str) -> str:
    return f'<article id="e{number}" class="{names}">\n{content}\n</article>\n'


def _mark(number: int) -> str:
    return f'<a href="#e{number}">{number}</a>'


def _preview(event: Event) -> str:
    """Return the preview of a folded event: its first line, and how much there is."""
    texts = [block.text for block in event.blocks if block.text]
    if not texts:
        return "no text"
    first = next((line.strip() for line in texts[0].splitlines() if line.strip(" {}[]\t")), "")
    lines = sum(text.count("\n") + 1 for text in texts)
    short = first if len(first) <= _LONGEST_PREVIEW else first[:_LONGEST_PREVIEW] + "…"
    return visible.line(f"{short} · {lines} lines" if lines > 1 else short)


def _block(block: Block, kind: Kind) -> str:
    label = " ".join(filter(None, (block.name, block.uri)))
    caption = f"<figcaption>{escape(visible.line(label))}</figcaption>" if label else ""
    if block.data is not None:
        content = _binary(block, block.data)
    elif block.type == "text" and not label and kind is not Kind.TOOL_RESULT:
        return f'<div class="text" dir="auto">{html_of(_clean(block.text or ""))}</div>'
    else:
        content = f'<pre dir="auto">{escape(_clean(block.text or ""))}</pre>'
    return f"<figure>{caption}{content}</figure>" if caption else content


def _binary(block: Block, data: bytes) -> str:
    encoded = b64encode(data).decode()
    if block.mime in _SHOWN_AS_IMAGES:
        name = escape(visible.line(block.uri or block.name or "image"))
        return f'<img alt="{name}" src="data:{block.mime};base64,{encoded}">'
    # to be saved, whatever it says that it is
    where = f"data:application/octet-stream;base64,{encoded}"
    name = f"content.{suffix_of(block.mime)}"
    return f'<a download="{escape(name)}" href="{where}">{len(data)} bytes, {escape(visible.line(block.mime))}</a>'


def _clean(text: str) -> str:
    """Return text without controls, which no page can hold; marks of direction end with the paragraph they are in."""
    return _controls.sub("\ufffd", text)
