"""A conversation as one page: what people and models say is open, the work of tools is folded up."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from html import escape

from store import visible
from store.errors import ConvfsError
from store.events.conversation import Conversation, EventRow, cwd_of
from store.events.event import Block, Event, Kind, utf8
from store.exporting.event_json import shown_events, told_events
from store.exporting.html.cards import Card, binary, captioned, pre
from store.exporting.html.frame import PAGE_STYLE, THEMES, head
from store.exporting.html.text import Ink, clean, html_of, language_of
from store.exporting.steps import OF_THE_MODEL, Requests, Spoken, Step, spoken_by
from store.exporting.target import Change, ExportJob
from store.formats.core.times import iso, local
from store.store import Store
from store.worktree.worktree import Changed, Seen, Worktree

_OPEN = frozenset((Kind.USER, Kind.ASSISTANT, Kind.SUMMARY, Kind.QUESTION, Kind.ANSWER))
_WORDS = {Kind.ASSISTANT: "Assistant", Kind.REASONING: "Thought", Kind.USER: "User", Kind.TOOL_RESULT: "Result"}
_LONGEST_PREVIEW = 120
_MOST_WAITING = 64
"""The most that is held back while a call before it has no result."""

Shown = Iterable[tuple[EventRow, Event | ConvfsError]]


def page_file(job: ExportJob) -> Iterator[bytes]:
    """Yield the pieces of the page of a conversation that is exported."""
    asked = _requests(job.store, job.conversation, job.first, job.last, job.change)
    return _page(job.conversation, list(asked), told_events(job))


def page(store: Store, conversation: Conversation, index: str) -> Iterator[bytes]:
    """Yield the pieces of the page of a conversation; ``index`` is the address of a list of all."""
    requests = list(_requests(store, conversation))
    return _page(conversation, requests, shown_events(store, conversation), index)


def _page(
    conversation: Conversation, requests: list[tuple[int, str]], events: Shown, index: str = ""
) -> Iterator[bytes]:
    yield utf8(_opening(conversation, requests, index))
    flow = _Flow({number for number, _text in requests}, conversation.metadata)
    for row, event in events:
        flow.add(row, event)
        yield from map(utf8, flow.ready())
    yield from map(utf8, flow.ready(_MOST_WAITING))
    yield _CLOSING


def too_large(conversation: Conversation, index: str) -> bytes:
    """Return a page that says how to get that of a large conversation."""
    command = escape(visible.command("convfs", "export", conversation.id, "--format", "html", "-o", "DIR"))
    told = f"<p>This conversation is too large for a page here. <code>{command}</code> writes it to a file.</p>\n"
    return utf8(_opening(conversation, [], index) + told) + _CLOSING


_CLOSING = b"</main>\n</body>\n</html>\n"


def _opening(conversation: Conversation, requests: list[tuple[int, str]], index: str) -> str:
    about = [conversation.project, conversation.format, local(conversation.created_ms)]
    about.append(f"{conversation.events:,} event{_s(conversation.events)}")
    title = head(conversation.title or conversation.name, about, PAGE_STYLE)
    return f'{title}{_navigation(requests, index)}<main id="main">\n'


def _requests(
    store: Store, conversation: Conversation, first: int = 1, last: int = 0, change: Change | None = None
) -> Iterator[tuple[int, str]]:
    """Yield the requests of a conversation, as they are told: the number of the event, and how its text begins."""
    rows = [*store.records.rows(conversation.head)[first - 1 : last or None]] if conversation.head else []
    asked = {
        row.number: event if change is None or isinstance(event, ConvfsError) else change(row, event)[1]
        for row, event in store.viewer.events([row for row in rows if row.kind is Kind.USER])
    }
    requests = Requests()
    texts: dict[int, str] = {}
    for row in rows:
        if row.kind in OF_THE_MODEL:
            requests.add(Spoken(row.number, row.kind, False))
        elif (event := asked.get(row.number)) is not None and not isinstance(event, ConvfsError):
            if spoken := spoken_by(row.number, event):
                requests.add(spoken)
            texts[row.number] = preview(event.blocks)
    for number in requests.numbers:
        yield number, texts[number]


def _navigation(requests: list[tuple[int, str]], index: str) -> str:
    home = f'<a class="home" href="{escape(index)}">All conversations</a>\n' if index else ""
    jumps = "".join(
        f'<li><a href="#e{number}"><b>{at}</b><span dir="auto">{escape(text)}</span></a></li>\n'
        for at, (number, text) in enumerate(requests, 1)
    )
    listed = f"<h2>Requests</h2>\n<ol>\n{jumps}</ol>\n" if requests else ""
    told = f"list {len(requests)} request{_s(len(requests))}"
    jump = f'<label class="jump"><input type="checkbox" id="jump">{told}</label>\n'
    return f"""<nav aria-label="This page">
{home}<fieldset class="choices">
<legend class="unseen">What is shown</legend>
<label><input type="checkbox" id="talk">people and answers only</label>
{jump if requests else ""}</fieldset>
{THEMES}{listed}</nav>
"""


class _Flow:
    """Events as they come, and what they are on the page, in order: a call waits for its result."""

    def __init__(self, requests: set[int], metadata: Mapping[str, object]) -> None:
        self._requests = {number: at for at, number in enumerate(sorted(requests), 1)}
        self._worktree = Worktree(metadata)
        self._cwd = cwd_of(metadata)
        self._ink = Ink()
        self._waiting: deque[Card | str] = deque()

    def add(self, row: EventRow, event: Event | ConvfsError) -> None:
        """Take the next event."""
        if isinstance(event, ConvfsError):
            word = row.kind.name.lower().replace("_", " ")
            reason = f"<p>The {word} cannot be read: {escape(visible.line(str(event)))}</p>"
            self._waiting.append(_article(row.number, "said bad", f"<header>{_mark(row.number)}</header>{reason}"))
            return
        failed = any(key.startswith("is_error") and value is True for key, value in event.header.items())
        for step, call, told in self._worktree.follow(row.number, event):
            if step.kind is Kind.TOOL_CALL:
                self._waiting.append(Card(row.number, step, self._cwd))
            elif step.kind is not Kind.TOOL_RESULT or call is None or not self._answered(call, step, told):
                self._waiting.append(self._step(step, failed))

    def _answered(self, call: Step, result: Step, told: list[Seen | Changed]) -> bool:
        """Give a call that still waits its result."""
        for card in self._waiting:
            if isinstance(card, Card) and card.call is call:
                card.result, card.told = result, told
                return True
        return False

    def ready(self, most: int = 0) -> Iterator[str]:
        """Yield what waits for nothing, and ``most`` pieces at least."""
        while self._waiting:
            first = self._waiting[0]
            if isinstance(first, Card) and first.result is None and len(self._waiting) < _MOST_WAITING and not most:
                return
            self._waiting.popleft()
            yield first.html(self._ink) if isinstance(first, Card) else first

    def _step(self, step: Step, failed: bool) -> str:
        number, kind = step.number, step.kind
        word = _WORDS.get(kind) or kind.name.capitalize()
        if kind not in _OPEN:
            return self._folded(step, word, failed)
        request = self._requests.get(number) if kind is Kind.USER else None
        tag = "h2" if request else "h3"
        title = f"Request {request}" if request else word
        time = iso(step.time_ms)
        shown = local(step.time_ms) if request else local(step.time_ms, "%H:%M")
        stamp = f'<time datetime="{time}">{shown}</time>' if time else ""
        names = f"said {kind.name.lower()}{' asked' if kind is Kind.USER else ''}{' bad' if failed else ''}"
        content = "\n".join(self._block(block) for block in step.blocks)
        return _article(
            number,
            names,
            f"<header><{tag}>{title}</{tag}>{stamp}{_mark(number)}</header>\n{content}",
            nth=step.index,
        )

    def _folded(self, step: Step, word: str, failed: bool) -> str:
        names = f"work {step.kind.name.lower()}{' bad' if failed else ''}"
        content = "\n".join(self._block(block) for block in step.blocks)
        summary = f'<b>{word}</b> <span class="what said-less" dir="auto">{escape(preview(step.blocks))}</span>'
        if failed:
            summary += " <strong>failed</strong>"
        about = f'<p class="about-call">event {_mark(step.number)}</p>'
        folded = f"<details><summary>{summary}</summary>\n{content}{about}</details>"
        return _article(step.number, names, folded, nth=step.index)

    def _block(self, block: Block) -> str:
        if block.data is not None:
            return binary(block, block.data)
        text = block.text or ""
        if block.type == "text" and not block.uri:
            return captioned(block, f'<div class="text" dir="auto">{html_of(clean(text), self._ink)}</div>')
        if block.type == "json":
            return captioned(block, pre(text, self._ink, "json"))
        label = escape(visible.line(" ".join(filter(None, (block.name, block.uri)))))
        shown = pre(text, self._ink, language_of(block.uri))
        return f'<details class="folded"><summary><b>{label}</b></summary>{shown}</details>'


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def _article(number: int, names: str, content: str, nth: int = 0) -> str:
    place = f' id="e{number}"' if not nth else ""
    return f'<article{place} class="{names}">\n{content}\n</article>\n'


def _mark(number: int) -> str:
    return f'<a class="no" href="#e{number}" aria-label="event {number}">{number}</a>'


def preview(blocks: Iterable[Block]) -> str:
    """Return the first line of what is folded up."""
    texts = [block.text for block in blocks if block.text]
    if not texts:
        return "no text"
    lines = (" ".join(line.split()).lstrip("#> ") for line in texts[0].splitlines() if line.strip(" {}[]\t#*->`"))
    first = next(lines, "")
    return visible.line(first if len(first) <= _LONGEST_PREVIEW else first[:_LONGEST_PREVIEW].rstrip() + " …")
