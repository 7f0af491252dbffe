"""HTML: a conversation as one page that needs nothing else, for browsers of any size."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from html import escape

from store.errors import ConvfsError
from store.events.conversation import Conversation, EventRow
from store.events.event import Block, Event, Kind, utf8
from store.exporting import page, prose
from store.exporting.event_json import told_events
from store.exporting.naming import file_name
from store.exporting.target import Job, Target
from store.formats.media import suffix_of
from store.formats.times import iso

_OPEN = frozenset((Kind.USER, Kind.ASSISTANT, Kind.SUMMARY, Kind.QUESTION, Kind.ANSWER))
_WORDS = {Kind.TOOL_CALL: "call", Kind.TOOL_RESULT: "result"}
_SHOWN_AS_IMAGES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml", "image/avif"))
_LONGEST_PREVIEW = 80


class Html(Target):
    """One page: what was said is open, what tools did is folded up."""

    name = "html"

    def write(self, job: Job) -> None:
        """Write one file."""
        job.stage.write(file_name(job.conversation, ".html"), map(utf8, _page(job)))


def _page(job: Job) -> Iterator[str]:
    yield _head(job.conversation)
    for row, event in told_events(job):
        yield _article(row, event)
    yield "</main>\n</body>\n</html>\n"


def _head(conversation: Conversation) -> str:
    title = escape(_clean(" ".join((conversation.title or conversation.name).split())))
    about = [conversation.project, conversation.format, iso(conversation.created_ms)[:16].replace("T", " ")]
    about.append(f"{conversation.events} events")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{page.POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{page.STYLE}</style>
</head>
<body>
<header>
<h1 dir="auto">{title}</h1>
<p class="about">{escape(_clean(" · ".join(filter(None, about))))}</p>
{page.THEMES}</header>
<main>
"""


def _article(row: EventRow, event: Event | ConvfsError) -> str:
    number, kind = row.number, row.kind
    word = _WORDS.get(kind, kind.name.lower())
    if isinstance(event, ConvfsError):
        body = f"<p>cannot be read: {escape(str(event))}</p>"
        return _framed(number, kind.name.lower(), f"<header>{_mark(number)} <b>{word}</b></header>\n{body}")
    failed = any(key.startswith("is_error") and value is True for key, value in event.header.items())
    names = f"{kind.name.lower()} failed" if failed else kind.name.lower()
    tool = f" <code>{escape(_clean(event.tool))}</code>" if event.tool else ""
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
    """Return what is to be seen of an event that is folded up: its first line, and how much there is."""
    texts = [block.text for block in event.blocks if block.text]
    if not texts:
        return "no text"
    first = next((line.strip() for line in texts[0].splitlines() if line.strip(" {}[]\t")), "")
    lines = sum(text.count("\n") + 1 for text in texts)
    short = first if len(first) <= _LONGEST_PREVIEW else first[:_LONGEST_PREVIEW] + "…"
    return _clean(f"{short} · {lines} lines" if lines > 1 else short)


def _block(block: Block, kind: Kind) -> str:
    label = " ".join(filter(None, (block.name, block.uri)))
    caption = f"<figcaption>{escape(_clean(label))}</figcaption>" if label else ""
    if block.data is not None:
        content = _binary(block, block.data)
    elif block.type == "text" and not label and kind is not Kind.TOOL_RESULT:
        return f'<div class="text" dir="auto">{prose.html_of(_clean(block.text or ""))}</div>'
    else:
        content = f'<pre dir="auto">{escape(_clean(block.text or ""))}</pre>'
    return f"<figure>{caption}{content}</figure>" if caption else content


def _binary(block: Block, data: bytes) -> str:
    encoded = b64encode(data).decode()
    if block.mime in _SHOWN_AS_IMAGES:
        name = escape(_clean(block.uri or block.name or "image"))
        return f'<img alt="{name}" src="data:{block.mime};base64,{encoded}">'
    # to be saved, whatever it says that it is
    where = f"data:application/octet-stream;base64,{encoded}"
    name = f"content.{suffix_of(block.mime)}"
    return f'<a download="{escape(name)}" href="{where}">{len(data)} bytes, {escape(_clean(block.mime))}</a>'


def _clean(text: str) -> str:
    """Return text without NULs, which no page can hold."""
    return text.replace("\0", "\ufffd") if "\0" in text else text
