"""Descriptions of formats: one page of TOML says where a tool keeps its sessions and what is in a record.

``store/FORMATS.md`` has all members, what they mean, and an example. A page that says anything else is refused.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Sequence, Set
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from store import typed
from store.errors import UsageError
from store.events.event import Kind, ValuePath
from store.formats.core.json_view import place, value_at

Condition = dict[str, str | int | bool | list[str]]

KINDS = {kind.word: kind for kind in Kind} | {"call": Kind.TOOL_CALL, "result": Kind.TOOL_RESULT}


class Call(Struct, frozen=True, forbid_unknown_fields=True):
    """A call in a record, or in a part of one."""

    name: str | list[str]
    id: str = ""
    arguments: str = ""


class Result(Struct, frozen=True, forbid_unknown_fields=True):
    """A result in a record, or in a part of one."""

    id: str = ""
    content: str | list[str] = []
    failed: str = ""
    worked: str = ""
    tool: str = ""


class Image(Struct, frozen=True, forbid_unknown_fields=True):
    """An image, or with ``name`` any file: what is no such data at its place names one elsewhere."""

    data: str
    mime: str = ""
    name: str = ""
    id: str = ""
    label: str = ""


class Spent(Struct, frozen=True, forbid_unknown_fields=True):
    """The tokens of an answer, or of all of a session's."""

    at: str | list[str] = ""
    id: str = ""
    model: str | list[str] = ""
    input: str | list[str] = ""
    output: str | list[str] = ""
    cache_read: str | list[str] = ""
    cache_write: str | list[str] = ""
    reasoning: str | list[str] = ""
    cost: str | list[str] = ""
    credits: str | list[str] = ""
    within: bool = False


class View(Struct, frozen=True, forbid_unknown_fields=True):
    """The event of a record, or of a list's element. All but ``when``, ``kind`` and ``role`` add to it."""

    when: Condition | list[Condition] = {}
    kind: str = ""
    role: str = ""
    reasoning: str | list[str] = []
    text: str | list[str] = []
    named: dict[str, str] = {}
    content: str | list[str] = []
    message: str = ""
    json: str | list[str] = []
    without: list[str] = []
    image: Image | None = None
    call: Call | None = None
    result: Result | None = None
    each: str | list[str] = []
    parts: list["View"] = []
    same: str | list[str] = []
    fields: dict[str, str] = {}
    head: dict[str, str | int | bool] = {}
    then: list["View"] = []
    otherwise: "View | None" = None
    usage: Spent | None = None
    new: dict[str, object] = {}


New = dict[str, dict[str, object]]
"""The templates of the records that a person's events become, by their kind."""


class Record(Struct, frozen=True, forbid_unknown_fields=True):
    """The parts that all records have."""

    time: str | list[str] = ""
    id: str = ""
    after: str = ""
    agent: str = ""
    repeats: list[str] = []
    whole: bool = False


class Session(Struct, frozen=True, forbid_unknown_fields=True):
    """The places where a session tells of itself: in its records, in its document, or in files beside it."""

    id: str | list[str] = []
    title: str | list[str] = []
    directory: str | list[str] = []
    project: str | list[str] = []
    started: str | list[str] = []
    forked_from: str | list[str] = []
    parent: str | list[str] = []
    usage: Spent | None = None
    more: dict[str, str] = {}


class Write(Struct, frozen=True, forbid_unknown_fields=True):
    """How a conversation of another tool becomes a session; ``file`` and ``id`` are formatted with :data:`NAMES`."""

    file: str
    id: str = "{session}"
    document: dict[str, object] = {}
    head: list[dict[str, object]] = []
    records: New = {}
    joins: list[str] = []
    join_results: bool = False
    image: dict[str, object] = {}
    beside: dict[str, dict[str, object]] = {}


NAMES = {
    "session": "0",
    "slug": "-home",
    "quoted": "%2Fhome",
    "name": "home",
    "md5": "0",
    "sha256": "0",
    "started": datetime.fromtimestamp(0, UTC),
}
"""The names in paths of new sessions, each with a value as it may have."""


class Resume(Struct, frozen=True, forbid_unknown_fields=True):
    """A program that goes on with sessions."""

    tool: str
    command: list[str]
    home: str = ""


class Database(Struct, frozen=True, forbid_unknown_fields=True):
    """Sessions in a database: each a row, with rows that are its messages, or with a document that holds them."""

    sessions: str
    messages: str = ""
    of: str = ""
    order: str = "rowid"
    key: str | list[str] = "id"
    id: str = "id"
    documents: list[str] = []
    packed: dict[str, list[str]] = {}
    title: str | list[str] = ""
    directory: str = ""
    roots: str = ""
    started: str | list[str] = ""
    parent: str = ""
    shown: str | list[str] = []
    has: list[str] = []
    touched: list[str] = []
    changed: str = ""
    unlisted: bool = False
    select: str = ""
    needs: dict[str, list[str]] = {}
    stale: str = ""
    own: str | list[str] = []
    rows: str = ""
    listed: str = ""
    document: str = ""
    each: str = ""
    items: list[str] = []
    sides: list[str] = []
    details: str = ""
    copies: str = ""
    follows: str = ""
    followed: str = ""
    current: str = ""


class Description(Struct, frozen=True, forbid_unknown_fields=True):
    """One page of TOML."""

    name: str
    records: list[View]
    container: str = "lines"
    items: list[str] = []
    homes: list[str] = []
    path: str = ""
    detect: list[Condition] = []
    deltas: list[Condition] = []
    unless: str = ""
    besides: list[str] = []
    describing: list[str] = []
    database: Database | list[Database] | None = None
    session: Session = Session()
    record: Record = Record()
    new: New = {}
    write: Write | None = None
    resume: list[Resume] = []
    native: bool = False


_VIEWS = Path(__file__).parents[1] / "views"
CONTAINERS = ("lines", "document", "database")


def read(text: str, origin: str) -> Description:
    """Return the description in a page of TOML. Raises UsageError, which calls it ``origin``, for one that is wrong."""
    try:
        found = typed.convert(tomllib.loads(text), Description)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{origin} is no TOML: {error}; correct it there") from None
    except msgspec.ValidationError as error:
        raise UsageError(f"{origin} describes no format: {error}; store/FORMATS.md has what it may say") from None
    _check(found, origin)
    return found


def read_file(path: Path) -> Description:
    """Return the description in a file, which is called as the format is. Raises UsageError as :func:`read` does."""
    try:
        found = read(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    if found.name != path.stem:
        raise UsageError(f"{path} describes {found.name!r}: call the file {found.name}.toml")
    return found


@cache
def read_views(name: str) -> Description:
    """Return the page that says what records look like which a module of ``store.formats`` finds."""
    return read_file(_VIEWS / f"{name}.toml")


def _check(found: Description, origin: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9-]*", found.name):
        raise UsageError(f"{origin}: a format is named with small letters, digits and hyphens, not {found.name!r}")
    if found.container not in CONTAINERS:
        raise UsageError(f"{origin}: container is {' or '.join(CONTAINERS)}, not {found.container!r}")
    if (found.container == "database") != (found.database is not None):
        raise UsageError(f"{origin}: a container that is a database has a section [database]")
    try:
        re.compile(found.path)
    except re.error as error:
        raise UsageError(f"{origin}: path is no regular expression: {error}") from None
    for name in ("id", "after"):
        if "." in getattr(found.record, name):
            raise UsageError(f"{origin}: record.{name} is a member of the record itself, not a place within one")
    for word in (*found.new, *(found.write.records if found.write else ())):
        if word not in KINDS:
            raise UsageError(f"{origin}: there is no kind {word!r}: choose one of {', '.join(KINDS)}")
    if found.write is not None:
        _check_write(found, found.write, origin)
    pending = list(found.records)
    while pending:
        view = pending.pop()
        if view.kind and view.kind not in KINDS:
            raise UsageError(f"{origin}: there is no kind {view.kind!r}: choose one of {', '.join(KINDS)}")
        if bool(view.each) != bool(view.parts):
            raise UsageError(f"{origin}: 'each' is the place of a list, and 'parts' say what its elements show")
        pending += (*view.parts, *view.then, *([view.otherwise] if view.otherwise else []))


def _check_write(found: Description, write: Write, origin: str) -> None:
    if found.container == "database":
        raise UsageError(f"{origin}: no session is written into a database: leave [write] out")
    if not {"user", "assistant"} <= found.new.keys() | write.records.keys():
        raise UsageError(f"{origin}: [write] needs the records of user and assistant, there or in [new]")
    try:
        for text in (write.file, write.id, *write.beside):
            text.format(**NAMES)
    except (AttributeError, LookupError, ValueError) as error:
        raise UsageError(f"{origin}: in paths of [write] stand {', '.join(NAMES)} in braces: {error}") from None


def listed(spelled: str | list[str]) -> list[str]:
    """Return what is spelled as one or several, and none where it is empty."""
    return spelled if isinstance(spelled, list) else [spelled] if spelled else []


def places(spelled: str | list[str]) -> tuple[ValuePath, ...]:
    """Return one or several places."""
    return tuple(map(place, listed(spelled)))


Read = Callable[[object], object]
"""Returns the value at some place of a record, None where there is none."""


def reader(path: ValuePath) -> Read:
    """Return the function that reads the value at a place: made once for a page, it is called for every record."""
    if not all(isinstance(step, str) for step in path):
        return lambda value: value_at(value, path)
    if len(path) == 1:
        [key] = path
        return lambda value: value.get(key) if isinstance(value, dict) else None
    if len(path) == 2:
        # as most that are not of one step: a loop takes twice as long
        holder, own = path

        def read_held(value: object) -> object:
            held = value.get(holder) if isinstance(value, dict) else None
            return held.get(own) if isinstance(held, dict) else None

        return read_held
    if len(path) == 3:
        # as those of most that are in documents of rows
        table, column, inner = path

        def read_inside(value: object) -> object:
            held = value.get(table) if isinstance(value, dict) else None
            held = held.get(column) if isinstance(held, dict) else None
            return held.get(inner) if isinstance(held, dict) else None

        return read_inside

    def read(value: object) -> object:
        for step in path:
            if not isinstance(value, dict):
                return None
            value = value.get(step)
        return value

    return read


Test = Callable[[object], bool]


def _test(wanted: object) -> Test:
    """Return the function that says whether a value is what a condition asks for."""
    if isinstance(wanted, bool):
        # a flag, or the question whether anything is there
        return lambda found: (found if isinstance(found, bool) else found is not None) is wanted
    if isinstance(wanted, frozenset):
        return lambda found: isinstance(found, str) and found in wanted
    return lambda found: found == wanted and not isinstance(found, bool)


class _Condition(NamedTuple):
    path: ValuePath
    read: Read
    test: Test
    words: Set[str]
    """The words of which one is asked for; none where something else is."""
    needs: bool
    """True if no value fulfils it that has nothing there."""


def _condition(spelled: str, wanted: object) -> _Condition:
    path = place(spelled)
    wanted = frozenset(wanted) if isinstance(wanted, list) else wanted
    words = wanted if isinstance(wanted, frozenset) else frozenset([wanted] if isinstance(wanted, str) else [])
    return _Condition(path, reader(path), _test(wanted), words, wanted is not False)


def _all_of(told: Sequence[tuple[Read, Test]]) -> Test:
    """Return the function that says whether a value passes all of some tests: asked for most records, it is short."""
    if not told:
        return lambda value: True
    [(read, test), *others] = told
    if not others:
        return lambda value: test(read(value))
    further = _all_of(others)
    return lambda value: test(read(value)) and further(value)


def _one_of(choices: Sequence[Test]) -> Test:
    first, *others = choices or [lambda value: False]
    if not others:
        return first
    further = _one_of(others)
    return lambda value: first(value) or further(value)


def _fitting(choices: Sequence[Sequence[_Condition]]) -> Test:
    """Return the function that says whether a value fulfils all conditions of one of the choices."""
    holds = _one_of([_all_of([(one.read, one.test) for one in told]) for told in choices])
    needed = {next((one.path[0] for one in told if one.needs and one.path), None) for told in choices}
    if len(choices) == 1 or not all(isinstance(key, str) for key in needed):
        return holds
    # of several choices, mostly the members of a value tell that it is none
    return lambda value: isinstance(value, dict) and not needed.isdisjoint(value) and holds(value)


class Fits:
    """A condition, or several of which one is enough; ``holds`` says whether a value fulfils it."""

    def __init__(self, spelled: Condition | list[Condition]) -> None:
        choices = spelled if isinstance(spelled, list) else [spelled]
        self._choices = [[_condition(*told) for told in one.items()] for one in choices]
        self.holds = _fitting(self._choices)

    @property
    def words(self) -> Iterator[tuple[ValuePath, Set[str]]]:
        """The places at which words are asked for, and these words."""
        return ((one.path, one.words) for told in self._choices for one in told if one.words)

    def given(self, path: ValuePath, found: object) -> Test | None:
        """Return what is left to test of a value that has this one at a place; None: it cannot fit."""
        fitting = (told for told in self._choices if all(one.path != path or one.test(found) for one in told))
        left = [[one for one in told if one.path != path] for told in fitting]
        return _fitting(left) if left else None
