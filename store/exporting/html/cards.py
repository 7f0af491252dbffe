"""Cards: a call with its result, folded up under a head that says what matters."""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from html import escape

from msgspec import Struct, structs

from store import visible
from store.events.event import Block, Kind
from store.exporting.html.text import Ink, clean, diff, language_of
from store.exporting.steps import Step
from store.formats.core.json_view import as_object, is_object
from store.formats.core.media import suffix_of
from store.formats.core.times import local
from store.results import drawn_blocks
from store.worktree.briefs import Brief, brief_of
from store.worktree.changes import FileChange, diff_of
from store.worktree.shell import command_of, script_of
from store.worktree.tools import is_shell
from store.worktree.worktree import Changed, Seen

_SHOWN_AS_IMAGES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml", "image/avif"))
_SHORT_DIFF = 24
"""The most lines of a diff that is not folded up."""
_SHORT_VALUE = 200
_DEEPEST = 4


class Card(Struct):
    """A call, and what came of it so far."""

    number: int
    call: Step
    cwd: str
    result: Step | None = None
    told: Sequence[Seen | Changed] = ()

    def html(self, ink: Ink) -> str:
        """Return it as HTML."""
        call, result = self.call, self.result
        failed = result is not None and result.failed
        changed = [told for told in self.told if isinstance(told, Changed)]
        brief = brief_of(call, result, self.cwd)
        shown = [change for change in map(diff_of, changed) if change.text]
        if shown:
            counts = sum(change.added for change in shown), sum(change.removed for change in shown)
            brief = structs.replace(brief, added=counts[0], removed=counts[1])
        is_open = bool(shown) and sum(change.text.count("\n") for change in shown) <= _SHORT_DIFF
        parts = [self._change(change, ink) for change in shown] or [*self._asked(ink)]
        pictures: list[str] = []
        if result is not None:
            returned = "".join(self._returned(result, ink, pictures))
            folded = f"<details><summary>what the tool said</summary>{returned}</details>" if shown else returned
            parts.append(folded if returned else "")
        numbers = [self.number, *([result.number] if result is not None and result.number != self.number else [])]
        places = "".join(f' <a class="no" href="#e{at}">{at}</a>' for at in numbers)
        stamp = local(call.time_ms)
        parts.append(f'<p class="about-call">{escape(stamp)}{" · " if stamp else ""}event{places}</p>')
        inner = f'<span id="e{numbers[1]}"></span>' if len(numbers) > 1 else ""
        opening = "<details open>" if is_open else "<details>"
        return (
            f'<article id="e{self.number}" class="work tool{" bad" if failed else ""}">{inner}{opening}'
            f"{self._summary(brief, failed)}\n{''.join(parts)}</details>{''.join(pictures)}</article>\n"
        )

    def _change(self, change: FileChange, ink: Ink) -> str:
        """Return a diff, with the name of the file in place of the two lines that tell it."""
        path = change.path.removeprefix(f"{self.cwd}/") if self.cwd else change.path
        hunks = change.text.split("\n", 2)[2].removesuffix("\n")
        shown = diff(clean(hunks), ink, language_of(path))
        return f"<figure><figcaption>{escape(visible.line(path))}</figcaption>{shown}</figure>"

    def _asked(self, ink: Ink) -> Iterator[str]:
        """Yield what the call asks for."""
        given = as_object(self.call.arguments)
        if not given:
            if isinstance(self.call.arguments, str) and self.call.arguments:
                yield pre(self.call.arguments, ink)
            return
        rest = dict(given)
        if is_shell(self.call.tool):
            command = command_of(given)
            words = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
            script = command if isinstance(command, str) else script_of(words) or visible.command(*words)
            rest = {key: value for key, value in given.items() if value is not command}
            yield pre(script, ink, "bash")
        short: list[str] = []
        long: list[str] = []
        for name, value in _values(rest):
            name = escape(visible.line(name))
            text = value if isinstance(value, str) else visible.json_text(value)
            if "\n" in text or len(text) > _SHORT_VALUE:
                long.append(f"<figure><figcaption>{name}</figcaption>{pre(text, ink)}</figure>")
            else:
                short.append(f'<dt>{name}</dt><dd dir="auto">{escape(clean(text))}</dd>')
        if short:
            yield f"<dl>{''.join(short)}</dl>"
        yield from long

    def _returned(self, result: Step, ink: Ink, pictures: list[str]) -> Iterator[str]:
        """Yield what came back; images go into ``pictures``, which are not folded up."""
        seen = [told for told in self.told if isinstance(told, Seen)]
        texts = [block for block in result.blocks if block.data is None]
        if len(seen) == len(texts) == 1 and seen[0].text:
            yield numbered(seen[0], ink)
        else:
            for block in drawn_blocks(Kind.TOOL_RESULT, texts):
                if block.text:
                    yield captioned(block, pre(block.text, ink, "json" if block.type == "json" else ""))
        pictures += (binary(block, block.data) for block in result.blocks if block.data is not None)

    def _summary(self, brief: Brief, failed: bool) -> str:
        parts = [f"<b>{escape(brief.verb)}</b>"]
        if brief.subject:
            parts.append(f'<span class="what" dir="auto">{escape(brief.subject)}</span>')
        if brief.added:
            parts.append(f"<ins>+{brief.added}</ins>")
        if brief.removed:
            parts.append(f"<del>−{brief.removed}</del>")
        if failed:
            parts.append("<strong>failed</strong>")
        if self.result is None:
            parts.append('<span class="end">no result</span>')
        elif not brief.added and not brief.removed:
            texts = [told.text for told in self.told if isinstance(told, Seen)] or [self.result.text]
            lines = sum(text.strip().count("\n") + 1 for text in texts)
            parts.append(f'<span class="end">{lines:,} lines</span>' if lines > 1 else "")
        return f"<summary>{' '.join(parts)}</summary>"


def _values(value: object, name: str = "", depth: int = _DEEPEST) -> Iterator[tuple[str, object]]:
    """Yield the values in a value, each with its place; what is nested deeper than ``depth`` is one value."""
    if depth and is_object(value) and value:
        for key, item in value.items():
            yield from _values(item, f"{name}.{key}" if name else key, depth - 1)
    elif depth and isinstance(value, list) and value:
        for at, item in enumerate(value):
            yield from _values(item, f"{name}[{at}]", depth - 1)
    else:
        yield name, value


def numbered(seen: Seen, ink: Ink) -> str:
    """Return lines of a file with their numbers."""
    lines = ink.lines(clean(seen.text.removesuffix("\n")), language_of(seen.path))
    return f'<ol class="code" start="{seen.first}">{"".join(f"<li>{line}" for line in lines)}</ol>'


def pre(text: str, ink: Ink, language: str = "") -> str:
    """Return a text as it stands."""
    return f'<pre dir="auto">{ink.code(clean(text), language)}</pre>'


def captioned(block: Block, content: str) -> str:
    """Return a content under the name of its block, if it has one."""
    label = " ".join(filter(None, (block.name, block.uri)))
    return f"<figure><figcaption>{escape(visible.line(label))}</figcaption>{content}</figure>" if label else content


def binary(block: Block, data: bytes) -> str:
    """Return an image, or under its name a link to save what is none."""
    encoded = b64encode(data).decode()
    if block.mime in _SHOWN_AS_IMAGES:
        name = escape(visible.line(block.uri or block.name or "image"))
        return f'<img alt="{name}" src="data:{block.mime};base64,{encoded}">'
    # to be saved, whatever it says that it is
    where = f"data:application/octet-stream;base64,{encoded}"
    name = f"content.{suffix_of(block.mime)}"
    link = f'<a download="{escape(name)}" href="{where}">{len(data)} bytes, {escape(visible.line(block.mime))}</a>'
    return captioned(block, link)
