"""The browser that ``convfs browse`` opens: a list, what is searched for, a preview, and what the keys do.

Whatever takes time runs in threads: a keystroke ends the search of the one before it.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual import events
from textual.app import App, ComposeResult
from textual.containers import Horizontal
from textual.widgets import Input, Static
from textual.worker import get_current_worker

from fusefs.cli.main import COMMANDS, explain
from fusefs.cli.panes import Listing, Preview, Row
from fusefs.cli.source import LISTED, PROMPT, Source, row_of
from store import visible
from store.conversations.lines import ConversationLine

if TYPE_CHECKING:
    from fusefs.daemon.answers import HitLine

_HITS = 200
_TITLES = 20
_BEFORE = 20
"""The events before the first one on the screen that are read when somebody goes up there."""
_LED_BY, _LONGEST = 10, 300
"""The characters of a line that are shown before what was found in it, and in all."""
_FAR = 1 << 30
_NO_WORDS = re.compile(r'-?\w+:\S*|(?<!\S)-\S+|[/"]')

HELP = """\
/          search; Enter goes to the hits, Esc back to all conversations
j k ↑ ↓    down and up; also PgDn PgUp g G
Enter      read, at the hit; Esc or q goes back to the list
r          resume the conversation in its tool
e          edit the event in $EDITOR (in a mount)
f          fork the conversation, at the hit
l          label it
x          export it
?          this help
q          quit"""


class Browser(App[None]):
    """List, search, preview; the keys are in :data:`HELP`."""

    CSS = """
    Screen { layers: base above; }
    #search { height: 1; border: none; padding: 0; background: transparent; width: 1fr; }
    #bar { height: 1; }
    #prompt { width: auto; }
    #list { width: 1fr; } #preview { width: 1fr; border-left: vkey $secondary; padding-left: 1; }
    .reading #list { display: none; } .reading #preview { border: none; padding: 0; }
    #status, #ask { height: 1; border: none; padding: 0; }
    #ask { display: none; }
    #help { display: none; layer: above; width: auto; height: auto; border: round $primary; padding: 1 2;
            background: $surface; offset: 4 2; }
    .helping #help { display: block; }
    """
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = ""

    def __init__(self, source: Source, first: Sequence[ConversationLine], query: str) -> None:
        super().__init__()
        self._source = source
        self._all = [_row(one) for one in first]
        self._more = len(first) == LISTED
        self._query = query
        self._answered: Callable[[str], None] | None = None
        self._mounted = self._told = ""

    # -- what is on the screen ----------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        with Horizontal(id="bar"):
            yield Static(PROMPT, id="prompt")
            yield Input(self._query, id="search", compact=True, select_on_focus=False)
        with Horizontal():
            yield Listing(id="list")
            yield Preview(id="preview")
        yield Static(id="status", markup=False)
        yield Input(id="ask", compact=True)
        yield Static(HELP, id="help", markup=False)

    def on_mount(self) -> None:
        self.theme = "textual-ansi" if "textual-ansi" in self.available_themes else self.theme
        self._list.show(self._all)
        self._tell("")
        self.watch(self._list, "cursor", self._moved, init=False)
        self.watch(self._preview, "top", self._scrolled, init=False)
        self.call_after_refresh(self._look)
        self._later(self._serve, "service")

    @property
    def _list(self) -> Listing:
        return self.query_one("#list", Listing)

    @property
    def _preview(self) -> Preview:
        return self.query_one("#preview", Preview)

    @property
    def _reading(self) -> bool:
        return self.screen.has_class("reading")

    def _tell(self, text: str) -> None:
        self._told = text
        keys = "/ search  Enter read  " + ("r resume  " if "resume" in COMMANDS else "")
        keys += ("e edit  " if self._mounted else "") + "f fork  l label  x export  ? help  q quit"
        self.query_one("#status", Static).update(visible.line(text) or keys)

    def _failed(self, error: Exception) -> None:
        self._tell(explain(error))

    def _later(self, work: Callable[[], None], group: str) -> None:
        """Run what takes time in a thread; another of the same group ends it."""

        def told() -> None:
            try:
                work()
            except _Over:
                pass
            except Exception as error:
                self._here(self._failed, error)

        self.run_worker(told, group=group, thread=True, exclusive=True)

    def _here(self, work: Callable[..., None], *values: object) -> None:
        """Go on from a thread with what it found, unless that is no longer wanted."""
        worker = get_current_worker()
        if worker.is_cancelled:
            raise _Over

        def unless_over() -> None:
            if not worker.is_cancelled:
                work(*values)

        self.call_later(unless_over)

    def _serve(self) -> None:
        self._source.serve()
        self._mounted = self._source.mountpoint()
        self._here(lambda: self._tell(self._told))

    # -- the list -----------------------------------------------------------------------------------------------------

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input.id != "search":
            return
        self._tell("")
        query = event.value.strip()
        words = _NO_WORDS.sub(" ", query).split()
        case = re.IGNORECASE if query.islower() else re.NOFLAG
        marks = re.compile("|".join(map(re.escape, words)), case) if words else None
        self._list.marks = self._preview.marks = marks
        if not query:
            self._later(lambda: self._here(self._list_all), "search")
        else:
            titled = tuple(words) if words == query.split() else ()
            self._later(lambda: self._search(query, titled, marks), "search")

    def _list_all(self) -> None:
        self._list.show(self._all)
        self._look()

    def _search(self, query: str, titled: tuple[str, ...], marks: re.Pattern[str] | None) -> None:
        rows = [_row(one) for one in self._source.latest(titled)[:_TITLES]] if titled else []
        if rows:
            self._here(self._found, list(rows))

        def take(page: list[HitLine]) -> None:
            rows.extend(_hit_row(hit, marks) for hit in page)
            # also an empty page shows whether this is still wanted
            self._here(self._found if page else _nothing, list(rows))

        self._source.hits(query, _HITS, take)
        self._here(self._found, rows)

    def _found(self, rows: Sequence[Row]) -> None:
        listing = self._list
        keep = listing.rows[:1] == rows[:1] and len(rows) >= len(listing.rows)
        listing.show(rows, keep=keep)
        if not rows:
            self._tell("Nothing was found.")
        if not keep:
            self._look()

    def _moved(self) -> None:
        listing = self._list
        if listing.rows is self._all and self._more and listing.cursor > len(self._all) - listing.size.height:
            self._more = False
            self._later(self._go_on, "list")
        self._look()

    def _go_on(self) -> None:
        found = self._source.latest(skipped=len(self._all))

        def go_on() -> None:
            showing = self._list.rows is self._all
            self._all.extend(map(_row, found))
            self._more = len(found) == LISTED
            if showing:
                self._list.show(self._all, keep=True)

        self._here(go_on)

    # -- the preview --------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Show the conversation at the cursor, from the hit on."""
        row = self._list.row
        if row is None:
            self._preview.lines = ()
            self._preview.refresh()
            return
        self._read(row, max(row.event, 1), 3 * self._preview.size.height)

    def _read(self, row: Row, first: int, least: int, by: int = 0) -> None:
        """Read a conversation from an event on, and go up or down in it."""

        def read() -> None:
            text, whole = self._source.text(row.conversation, first, least)
            self._here(show, text, whole)

        def show(text: Sequence[str], whole: bool) -> None:
            self._preview.take(row, first, text, whole=whole)
            self._preview.move(by)

        self._later(read, "preview")

    def _scrolled(self) -> None:
        preview = self._preview
        if preview.row is not None and preview.lacks:
            self._read(preview.row, preview.first, 2 * len(preview.lines) + preview.size.height)

    # -- the keys -----------------------------------------------------------------------------------------------------

    async def on_event(self, event: events.Event) -> None:
        """Do what a key says at once: those that are typed faster than anything is drawn belong to what it leads to."""
        if isinstance(event, events.Key) and not event.is_forwarded and (deed := self._keys.get(event.key)):
            deed(self)
        else:
            await super().on_event(event)

    @property
    def _keys(self) -> dict[str, Callable[[Browser], None]]:
        if not isinstance(self.focused, Input):
            return _IN_LIST
        return _IN_SEARCH if self.focused.id == "search" else _IN_ANSWER

    def _search_for(self) -> None:
        self.screen.remove_class("reading")
        self.set_focus(self.query_one("#search", Input))

    def _to_list(self) -> None:
        self.set_focus(None)

    def _move(self, by: int) -> None:
        preview = self._preview
        if not self._reading:
            self._list.move(by)
        elif by < 0 and not preview.top and preview.first > 1 and preview.row is not None:
            first = max(preview.first - _BEFORE, 1)
            self._read(preview.row, first, len(preview.lines) + 3 * preview.size.height + 100 * _BEFORE, by)
        elif by == _FAR and not preview.whole and preview.row is not None:
            self._read(preview.row, preview.first, _FAR, by)
        else:
            preview.move(by)

    def _page(self, pages: int) -> None:
        self._move(pages * max(self._list.size.height or self._preview.size.height, 2) - pages)

    def _read_it(self) -> None:
        if self._list.row is not None:
            self.screen.add_class("reading")
            self.set_focus(None)
            self._tell("")
            # the pane is wider now
            self.call_after_refresh(self._look)

    def _go_out(self) -> None:
        if self.screen.has_class("helping"):
            self.screen.remove_class("helping")
        elif self.query_one("#ask").display:
            self._ask_no_more()
        elif self._reading:
            self.screen.remove_class("reading")
            self.set_focus(None)
            self.call_after_refresh(self._look)
        elif self.focused is self.query_one("#search") or self.query_one("#search", Input).value:
            self.query_one("#search", Input).value = ""
            self.set_focus(None)

    def _leave(self) -> None:
        if self._reading or self.screen.has_class("helping"):
            self._go_out()
        else:
            self.exit()

    def _help(self) -> None:
        self.screen.toggle_class("helping")

    def _resume(self) -> None:
        row = self._list.row
        if row is not None and "resume" in COMMANDS:
            self._run([*self._convfs, "resume", str(row.conversation)])

    def _edit(self) -> None:
        row = self._list.row
        if row is None:
            return
        if not self._mounted:
            self._tell("Events are edited in a mount: `convfs mount DIR` makes one.")
            return
        event = self._preview.event if self._reading else max(row.event, 1)
        directory = os.path.join(self._mounted, "conversations", row.name, "events")
        names = (one for one in sorted(os.listdir(directory)) if one[:1].isdigit())
        name = next((one for one in names if int(one.partition("-")[0]) >= event), None)
        if name is not None:
            editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
            self._run([*shlex.split(editor), os.path.join(directory, name)])

    def _fork(self) -> None:
        row = self._list.row
        if row is not None:
            at = f" at event {row.event}" if row.event else ""
            self._ask(f"Name of the fork{at}", "", lambda name: self._command("fork", _at(row), name))

    def _label(self) -> None:
        row = self._list.row
        if row is None:
            return

        def label(text: str) -> None:
            from store.service.calls import set_metadata

            labels = [one.strip() for one in text.split(",") if one.strip()]
            with self._source.backend() as backend:
                backend.call(set_metadata(row.conversation, {"labels": labels or None}))
            self._here(self._tell, f"Labels: {', '.join(labels) or 'none'}")

        def ask() -> None:
            from store.service.operations import find_conversation

            with self._source.backend() as backend:
                labels = backend.call(find_conversation(str(row.conversation))).labels
            self._here(lambda: self._ask("Labels, with commas", ", ".join(labels), label))

        self._later(ask, "key")

    def _export(self) -> None:
        row = self._list.row
        if row is None:
            return

        def export(text: str) -> None:
            form, _, directory = text.strip().partition(" ")
            self._command("export", str(row.conversation), "--format", form, "-o", directory or ".")

        self._ask("Export as FORMAT to DIRECTORY", "markdown .", export)

    # -- questions and commands ---------------------------------------------------------------------------------------

    def _ask(self, what: str, suggested: str, answered: Callable[[str], None]) -> None:
        self._answered = answered
        ask = self.query_one("#ask", Input)
        ask.value = suggested
        self._tell(f"{what} (Esc: not at all)")
        # at once, or it could not have the keys that are typed now
        ask.display = True
        self.set_focus(ask)

    def _ask_no_more(self) -> None:
        self.query_one("#ask").display = False
        self._tell("")
        self.set_focus(None)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self._ask_no_more()
        answered, text = self._answered, event.value
        if answered is not None and text.strip():
            self._later(lambda: answered(text), "key")

    @property
    def _convfs(self) -> list[str]:
        return [sys.executable, "-m", "fusefs.cli", "--store", str(self._source.root)]

    def _command(self, *arguments: str) -> None:
        """Run a command of convfs, and tell the last line that it says."""
        done = subprocess.run([*self._convfs, *arguments], capture_output=True, text=True, check=False)
        said = (done.stdout or done.stderr).strip().splitlines()
        self._here(self._tell, said[-1] if said else "Done.")

    def _run(self, command: Sequence[str]) -> None:
        """Leave the terminal to a program until it ends."""
        with self.suspend():
            if subprocess.run(command, check=False).returncode:
                input("Enter goes back to the browser. ")
        self._look()


class _Over(Exception):
    """Something else is wanted now."""


def _nothing(_rows: Sequence[Row]) -> None:
    pass


def _row(one: ConversationLine) -> Row:
    return Row(row_of(one), one.id, f"{one.project}/{one.name}")


def _hit_row(hit: HitLine, marks: re.Pattern[str] | None) -> Row:
    line = hit.lines[0].text if hit.lines else ""
    found = marks.search(line) if marks else None
    start = found.start() - _LED_BY if found and found.start() > 2 * _LED_BY else 0
    shown = ("…" if start else "") + " ".join(line[start : start + _LONGEST].split())
    text = f"{hit.time[:10]}  {hit.project}  {hit.event} {f'{hit.kind} {hit.tool}'.strip()}: {shown}"
    return Row(visible.line(text), hit.id, f"{hit.project}/{hit.name}", hit.event, line)


def _at(row: Row) -> str:
    return f"{row.name}@{row.event}" if row.event else row.name


_IN_LIST: dict[str, Callable[[Browser], None]] = {
    "slash": Browser._search_for,
    **dict.fromkeys(("j", "down"), lambda browser: browser._move(1)),
    **dict.fromkeys(("k", "up"), lambda browser: browser._move(-1)),
    **dict.fromkeys(("pagedown", "space"), lambda browser: browser._page(1)),
    "pageup": lambda browser: browser._page(-1),
    **dict.fromkeys(("g", "home"), lambda browser: browser._move(-_FAR)),
    **dict.fromkeys(("G", "end"), lambda browser: browser._move(_FAR)),
    "enter": Browser._read_it,
    "escape": Browser._go_out,
    "r": Browser._resume,
    "e": Browser._edit,
    "f": Browser._fork,
    "l": Browser._label,
    "x": Browser._export,
    "question_mark": Browser._help,
    "q": Browser._leave,
}
_IN_SEARCH: dict[str, Callable[[Browser], None]] = {
    **{key: _IN_LIST[key] for key in ("down", "up", "pagedown", "pageup", "escape")},
    "enter": Browser._to_list,
}
_IN_ANSWER: dict[str, Callable[[Browser], None]] = {"escape": Browser._go_out}
