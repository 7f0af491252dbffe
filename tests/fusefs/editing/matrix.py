"""The matrix of gestures: what becomes of each gesture on each kind of event of each format, through each door.

A gesture is a function that is asked about an event and yields the saves that make it; see :data:`GESTURES`. Every save
changes the store or is refused with a message: :func:`outcomes` fails where one does neither.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from fusefs.editing.bursts import Bursts
from fusefs.editing.programs import Programs
from fusefs.editing.records import EventCommits
from fusefs.editing.targets import EventTarget, JsonTarget
from fusefs.text.grammar import body, head
from fusefs.text.parse import parse_event
from fusefs.text.render import render_event
from fusefs.tree.tree import Tree
from store.errors import UsageError
from store.events.conversation import Conversation, EventRow
from store.events.event import DELETED, Block, Event, Kind
from store.results import with_documents
from store.store import Store

NEW = "Said by hand"
NEW_BLOCK = Block("text", "Added by hand")
_UNCHANGED = frozenset(("event", "type", "parent"))


class Case(NamedTuple):
    """One event of a store, in its conversation."""

    records: EventCommits
    view: int
    format: str
    row: EventRow
    event: Event

    @property
    def store(self) -> Store:
        return self.records.tree.store

    @property
    def payload(self) -> bytes:
        return self.store.contents.payload(self.records.tree.view(self.view).row(self.row.number).turn)

    @property
    def drawn(self) -> bytes:
        return render_event(self.row.number, self.event)

    def with_blocks(self, blocks: Sequence[Block]) -> bytes:
        """Return the event's file with other blocks; each keeps the link that it has in it."""
        parsed = parse_event(self.drawn).blocks
        links = {block: one.link for block, one in zip(self.event.blocks, parsed, strict=True) if one.link}
        fenced = (*blocks, Block("json", "null", name="fenced"))
        text = body(tuple(fenced), lambda block: str(links.get(block, "../x")))
        text = text[: text.rindex("\n````block json fenced")] if blocks else ""
        return (head(self.row.number, self.event) + text).encode("utf-8", "replace")


class Save(NamedTuple):
    """One try of a gesture: what is said of it in the matrix, and the function that does it, for the changed state."""

    name: str
    make: Callable[[], object]


class Gesture(NamedTuple):
    """A gesture through a door: ``saves`` yields what there is to try with an event; nothing where it has no sense."""

    name: str
    door: str
    saves: Callable[[Case], Iterator[Save]]


class Outcome(NamedTuple):
    """The outcome of a save: ``reason`` is "" if it was made."""

    format: str
    kind: Kind
    gesture: str
    door: str
    number: int
    save: str
    reason: str


# -- events/ ---------------------------------------------------------------------------------------------------------


def _saved(case: Case, data: bytes) -> Callable[[], object]:
    def save() -> object:
        target = EventTarget(case.records, case.view, case.row.number)
        target.begin()
        prepared = target.prepare(target.state(), data)
        return None if prepared is None else prepared.commit(0)

    return save


def _edit(case: Case) -> Iterator[Save]:
    for at, block in enumerate(case.event.blocks):
        if block.text is None or block.type == "artifact":
            continue
        blocks = list(case.event.blocks)
        text = f"{NEW}: {block.text}" if block.type != "json" else _more(block.text)
        blocks[at] = msgspec.structs.replace(block, text=text)
        yield Save(f"{block.type} {block.name}", _saved(case, case.with_blocks(blocks)))
        return


def _more(document: str) -> str:
    value = json.loads(document)
    if isinstance(value, dict):
        return json.dumps({**value, "by_hand": NEW}, indent=2, ensure_ascii=False)
    return json.dumps([*value, NEW] if isinstance(value, list) else [value, NEW], indent=2, ensure_ascii=False)


def _add_block(case: Case) -> Iterator[Save]:
    blocks = case.event.blocks
    if blocks:
        yield Save("at the end", _saved(case, case.with_blocks((*blocks, NEW_BLOCK))))
        yield Save("at the beginning", _saved(case, case.with_blocks((NEW_BLOCK, *blocks))))
    else:
        yield Save("where there is none", _saved(case, case.drawn + f"{NEW}\n".encode()))
    if case.event.kind is Kind.TOOL_CALL and (named := _arguments(blocks)):
        last = next(at for at, block in enumerate(blocks) if block.name.partition(".")[0] == named) + 1
        argument = Block("text", f"{NEW}\nof two lines", name=f"{named}.by_hand")
        last += sum(block.name.startswith(f"{named}.") for block in blocks[last:])
        yield Save("an argument", _saved(case, case.with_blocks((*blocks[:last], argument, *blocks[last:]))))


def _arguments(blocks: Sequence[Block]) -> str:
    names = {block.name.partition(".")[0] for block in blocks}
    return next((name for name in names if name == "arguments"), "")


def _remove_block(case: Case) -> Iterator[Save]:
    blocks = case.event.blocks
    if len(blocks) < 2:
        return
    for at, block in enumerate(blocks[:12]):
        name = f"{block.type} {block.name}"
        yield Save(name, _saved(case, case.with_blocks((*blocks[:at], *blocks[at + 1 :]))))


def _reorder(case: Case) -> Iterator[Save]:
    blocks = case.event.blocks
    for at in range(min(len(blocks) - 1, 12)):
        one, other = blocks[at], blocks[at + 1]
        if (one.type, one.text, one.data) != (other.type, other.text, other.data):
            moved = (*blocks[:at], other, one, *blocks[at + 2 :])
            yield Save(f"{one.type} {one.name}, {other.type} {other.name}", _saved(case, case.with_blocks(moved)))


def _fields(case: Case) -> Iterator[Save]:
    event = case.event
    fields = {"tool": event.tool, **event.header} if event.tool else dict(event.header)
    if event.time_ms and "timestamp" not in fields:
        fields["timestamp"] = ""
    text = case.drawn.decode("utf-8", "replace")
    lines = text[: text.index("\n---\n")].split("\n")
    for key, value in fields.items():
        at = next(at for at, line in enumerate(lines) if line.split(":")[0].strip('"') == key and at > 2)
        if key == "timestamp":
            said = lines[at].partition(": ")[2].strip('"')
            new = f'"{said[:-1]}Z"' if not said.endswith("Z") else said
            time_ms = event.time_ms + _step(case)
            new = _iso(time_ms)
            if time_ms == event.time_ms:
                continue
        elif isinstance(value, bool):
            new = str(not value).lower()
        elif isinstance(value, (int, float)):
            new = str(value + 1)
        else:
            new = json.dumps(f"{value}-2")
        changed = [*lines[:at], f"{lines[at].partition(':')[0]}: {new}", *lines[at + 1 :]]
        data = "\n".join(changed) + text[text.index("\n---\n") :]
        yield Save(key, _saved(case, data.encode()))


def _step(case: Case) -> int:
    """Return by how many milliseconds an event can be later, or earlier."""
    view = case.records.tree.view(case.view)
    now = case.event.time_ms
    later, earlier = range(case.row.number + 1, view.records + 1), range(case.row.number - 1, 0, -1)
    after = next((time for at in later if (time := view.row(at).time_ms)), now + 5000)
    before = next((time for at in earlier if (time := view.row(at).time_ms)), now - 5000)
    # some formats count whole seconds
    steps = [step for step in (1000, -1000, 1, -1) if before <= now + step <= after]
    return steps[0] if steps else 0


def _iso(time_ms: int) -> str:
    from store.formats.core.times import in_iso

    return in_iso(time_ms)


def _delete(case: Case) -> Iterator[Save]:
    yield Save("", lambda: case.records.change(case.view, {case.row.number: DELETED}) or "deleted")  # type: ignore[func-returns-value]


# -- events.json -----------------------------------------------------------------------------------------------------


def _rewritten(case: Case, change: Callable[[list[object], int], object]) -> Callable[[], object]:
    def save() -> object:
        target = JsonTarget(case.records, case.view)
        elements: list[object] = json.loads(target.drawn())
        rows = [row for row in case.store.records.rows(case.records.tree.view(case.view).head) if not row.deleted]
        at = next(at for at, row in enumerate(rows) if row.number == case.row.number)
        change(elements, at)
        prepared = target.prepare(target.state(), json.dumps(elements, indent=2, ensure_ascii=False).encode())
        return None if prepared is None else prepared.commit(0)

    return save


def at_path(value: object, path: Sequence[str | int]) -> object:
    """Return what stands at a path of a document."""
    for step in path:
        value = value[step]  # type: ignore[index]
    return value


def list_of(case: Case) -> tuple[tuple[str | int, ...], int] | None:
    """Return the innermost list of the record that the first block stands in, and its place there."""
    for block in case.event.blocks:
        value: object = case.event.native
        found: tuple[tuple[str | int, ...], int] | None = None
        for at, step in enumerate(block.path):
            if isinstance(value, list) and isinstance(step, int):
                found = block.path[:at], step
            elif not isinstance(value, dict):
                break
            value = value[step]  # type: ignore[index]
        if found is not None:
            return found
    return None


def _listed(change: Callable[[list[object], int], object], least: int) -> Callable[[Case], Iterator[Save]]:
    def saves(case: Case) -> Iterator[Save]:
        found = list_of(case)
        if found is None or not isinstance(case.event.native, dict):
            return
        path, place = found
        held = at_path(case.event.native, path)
        if isinstance(held, list) and len(held) >= least and (least < 2 or held != held[::-1]):
            yield Save("", _rewritten(case, lambda elements, at: change(at_path(elements[at], path), place)))  # type: ignore[arg-type]

    return saves


def _json_edit(case: Case) -> Iterator[Save]:
    block = next((one for one in case.event.blocks if one.type == "text" and one.path and one.text), None)
    if block is None or not isinstance(case.event.native, dict):
        return
    path = block.path
    try:
        if not isinstance(at_path(case.event.native, path), str):
            return
    except (KeyError, TypeError):
        # it stands in a document that is a string itself
        return

    def change(elements: list[object], at: int) -> None:
        holder = at_path(elements[at], path[:-1])
        holder[path[-1]] = {"text": NEW}  # type: ignore[index]

    yield Save("", _rewritten(case, change))


def _json_delete(case: Case) -> Iterator[Save]:
    yield Save("", _rewritten(case, lambda elements, at: elements.pop(at)))


def _json_add(case: Case) -> Iterator[Save]:
    def change(elements: list[object], at: int) -> None:
        copy = json.loads(json.dumps(elements[at]))
        if isinstance(copy, dict):
            copy.pop("$event", None)
        elements.append(copy)

    yield Save("", _rewritten(case, change))


GESTURES: tuple[Gesture, ...] = (
    Gesture("edit", "events/", _edit),
    Gesture("delete", "events/", _delete),
    Gesture("add a block", "events/", _add_block),
    Gesture("remove a block", "events/", _remove_block),
    Gesture("reorder blocks", "events/", _reorder),
    Gesture("head field", "events/", _fields),
    Gesture("edit", "events.json", _json_edit),
    Gesture("delete", "events.json", _json_delete),
    Gesture("add", "events.json", _json_add),
    Gesture("add a block", "events.json", _listed(lambda parts, at: parts.append(parts[at]), 1)),
    Gesture("remove a block", "events.json", _listed(lambda parts, at: parts.pop(at), 2)),
    Gesture("reorder blocks", "events.json", _listed(lambda parts, _at: parts.reverse(), 2)),
)
"""The gestures, in the order of the matrix's columns. A new one is a row here."""


def cases(store: Store, conversations: Sequence[Conversation], most: int, of_kind: int = 1000) -> Iterator[Case]:
    """Yield at most so many events of each format, kind and shape, and of each kind; small conversations first."""
    records = EventCommits(Tree(store), Bursts(Programs(), 0))
    seen: Counter[object] = Counter()
    for conversation in sorted(conversations, key=lambda one: one.records):
        if not conversation.head:
            continue
        view = records.tree.view_id(conversation.id)
        for row, event in store.viewer.events(store.records.rows(conversation.head)):
            if not isinstance(event, Event) or event.kind is Kind.RECORD or event.lossy:
                continue
            blocks = tuple((block.type, block.name.partition(".")[0]) for block in event.blocks[:6])
            shape = conversation.format, event.kind, blocks
            seen[shape] += 1
            if seen[shape] <= most and seen[shape[:2]] < of_kind:
                seen[shape[:2]] += 1
                yield Case(records, view, conversation.format, row, with_documents(event))


def outcomes(case: Case, gestures: Sequence[Gesture] = GESTURES) -> Iterator[Outcome]:
    """Yield what becomes of every gesture on an event, which is as before afterwards. Fails where one is silent."""
    tree = case.records.tree
    for gesture in gestures:
        for save in gesture.saves(case):
            # as a daemon does: contents that events.json names are looked for in all that is not filed
            while case.store.search.step():
                pass
            head_before = tree.view(case.view).head
            reason = ""
            try:
                done = save.make()
            except UsageError as error:
                reason = str(error)
                assert reason.isprintable(), reason
                assert reason
                assert tree.view(case.view).head == head_before, "a refused save changed something"
            else:
                where = f"{case.format} event {case.row.number} ({case.event.kind.name}) {gesture}: {save.name}"
                assert done is not None, f"accepted, and nothing changed: {where}"
                tree.renew(case.view)
                assert tree.view(case.view).head != head_before, f"said to be made, and nothing changed: {where}"
                _back(case, head_before)
            yield Outcome(case.format, case.event.kind, gesture.name, gesture.door, case.row.number, save.name, reason)


def _back(case: Case, head_before: int) -> None:
    from store.editing.editor import Editor

    store = case.store
    context = case.records.context(case.view)
    number = next(version.number for version in store.catalogue.versions(context) if version.head == head_before)
    Editor(store).restore(context, number)
    case.records.tree.renew(case.view)


def table(found: Sequence[Outcome]) -> str:
    """Return the matrix: a row for each format and kind, a column for each gesture and door."""
    columns = list(dict.fromkeys((one.door, one.gesture) for one in found))
    cells: defaultdict[tuple[str, str, tuple[str, str]], list[bool]] = defaultdict(list)
    for one in found:
        cells[one.format, one.kind.name.lower(), (one.door, one.gesture)].append(not one.reason)
    rows = sorted({(format_, kind) for format_, kind, _column in cells})
    lines = ["format kind".ljust(26) + " ".join(f"{door}:{name}" for door, name in columns)]
    for format_, kind in rows:
        told = []
        for column in columns:
            made = cells.get((format_, kind, column), [])
            text = f"{sum(made)}/{len(made)}" if made else "-"
            told.append(text.center(len(f"{column[0]}:{column[1]}")))
        lines.append(f"{format_} {kind}".ljust(26) + " ".join(told))
    return "\n".join(lines)
