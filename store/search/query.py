r"""Queries: words, phrases, regular expressions, and where to look.

::

    connection reset                 both words, anywhere in an event, in any order
    "connection reset by peer"       these words exactly
    /time(d )?out after \d+ s/        a regular expression (Python's), within a line
    -retry                           not with this; with anything that can be asked for
    reset OR timeout                 one of the two, whatever else is asked for
    project:shop format:codex title:login label:bug branch:main is:subagent
    kind:user role:assistant tool:Bash* uri:main.py model:opus after:2026-03-01 before:2w

Lower-case queries are case-insensitive; one with a capital in a word, a phrase or a regular expression is not.
Words are found within words. ``project:``, ``format:``, ``label:``, ``branch:`` and ``tool:`` take whole names, in
which ``*`` stands for anything; ``title:``, ``uri:`` and ``model:`` take any part of one. ``kind:`` is a word that
event files are named by (``user``, ``call``, ``result`` …); ``role:`` is that or ``assistant`` (what a model says,
thinks and calls), ``user`` (answers, too), ``tool`` (what came back) or ``system``. Days are UTC: ``after:`` begins
with one, ``before:`` ends before it; a number means that many days ago, ``2w`` weeks, ``12h`` hours, ``yesterday`` one
day. ``OR`` stands between two of these and binds closer than a space. Anything with a space goes in quotes:
``project:"my shop"``; in quotes, nothing is a filter.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from fnmatch import translate
from typing import TypeVar

from msgspec import Struct, structs

from store.errors import UsageError
from store.events.event import Kind
from store.formats.core.times import SPANS
from store.index.catalogue import ContextEntry
from store.search.needs import Every, all_of, one_of
from store.search.terms import MOST_CHARACTERS, Literal, Regex, Term, has_capitals

T = TypeVar("T")

_TOKEN = re.compile(
    r"""\s*(?P<minus>-(?=[^\s-]))?(?:
        (?P<key>[a-z]+):(?:"(?P<quoted>[^"]*)"|(?P<value>[^\s"]\S*))(?=\s|$)
        |"(?P<phrase>[^"]*)"(?=\s|$)
        |/(?P<regex>\S.*?|)/(?=\s|$)
        |(?P<word>\S+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_NO_VALUE = (":", "/", "\\")
"""The marks after the colon in ``https://…``, ``std::…`` and ``c:\\…``, which are words."""
_OR = "OR"
_DAY = re.compile(r"(\d{4})(?:-(\d\d?)(?:-(\d\d?))?)?")
_AGO = re.compile(r"(\d{1,6})([hdwy]?)")
_NAMED_DAYS = {"today": 0, "yesterday": 1}

_KINDS: dict[str, frozenset[Kind]] = {
    "user": frozenset((Kind.USER,)),
    "assistant": frozenset((Kind.ASSISTANT,)),
    "system": frozenset((Kind.SYSTEM,)),
    "call": frozenset((Kind.TOOL_CALL,)),
    "result": frozenset((Kind.TOOL_RESULT,)),
    "reasoning": frozenset((Kind.REASONING,)),
    "question": frozenset((Kind.QUESTION,)),
    "answer": frozenset((Kind.ANSWER,)),
    "summary": frozenset((Kind.SUMMARY,)),
    "note": frozenset((Kind.NOTE,)),
    "config": frozenset((Kind.CONFIG,)),
}
_ROLES = _KINDS | {
    "user": frozenset((Kind.USER, Kind.ANSWER)),
    "assistant": frozenset((Kind.ASSISTANT, Kind.REASONING, Kind.TOOL_CALL, Kind.QUESTION)),
    "tool": frozenset((Kind.TOOL_RESULT,)),
    "system": frozenset((Kind.SYSTEM, Kind.CONFIG)),
}

_STATES: dict[str, Callable[[ContextEntry], bool]] = {
    "subagent": lambda entry: "parent_session" in entry.metadata,
    "fork": lambda entry: "forked_from" in entry.metadata,
    "pinned": lambda entry: entry.metadata.get("pinned") is True,
    "archived": lambda entry: entry.metadata.get("archived") is True,
}


def _text(value: object) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else ()


_OF_CONVERSATIONS: dict[str, Callable[[ContextEntry], Iterable[str]]] = {
    "project": lambda entry: (entry.project,),
    "format": lambda entry: (entry.format,),
    "title": lambda entry: (entry.title,),
    "label": lambda entry: entry.labels,
    "branch": lambda entry: _text(entry.metadata.get("branch")),
    "is": lambda entry: (state for state, holds in _STATES.items() if holds(entry)),
}
"""The filters that look at a conversation, and what each compares."""
_IN_RECORDS = ("uri", "model")
_OF_EVENTS = ("tool", *_IN_RECORDS)
_IN_PART = ("title", "uri", "model")
"""The filters that take any part of a value."""
_SETS = {"kind": _KINDS, "role": _ROLES}
FILTERS = (*_OF_CONVERSATIONS, *_SETS, *_OF_EVENTS, "after", "before")


class Filter(Struct, frozen=True):
    """A condition on an event or its conversation: the value must fit, or must not (``negated``)."""

    key: str
    pattern: re.Pattern[str]
    negated: bool

    def fits(self, *values: str) -> bool:
        """Return whether one of some values meets the condition."""
        return any(self.pattern.search(value) for value in values) != self.negated


class Query(Struct, frozen=True):
    """A query, all conditions of which must hold. Times are Unix milliseconds; ``kinds`` None: all.

    ``phrase`` is the words of the query in their order, None if there is only one. ``conversation`` and ``event`` are
    the filters that look at these. Of each row of ``either``, one must hold.
    """

    terms: tuple[Term, ...] = ()
    phrase: Term | None = None
    without: tuple[Term, ...] = ()
    conversation: tuple[Filter, ...] = ()
    event: tuple[Filter, ...] = ()
    kinds: frozenset[Kind] | None = None
    after_ms: int | None = None
    before_ms: int | None = None
    either: tuple[tuple["Query", ...], ...] = ()

    @property
    def need(self) -> Every:
        choices = [one_of([each.need for each in choice]) for choice in self.either]
        return all_of([*(term.need for term in self.terms), *choices])

    @property
    def spoken(self) -> list[Term]:
        """The texts that it looks for, those of ``either`` included."""
        return [*self.terms, *(term for choice in self.either for each in choice for term in each.spoken)]

    @property
    def of_events(self) -> bool:
        """True if it asks for something that only an event has."""
        return bool(self.event) or self.kinds is not None

    @property
    def of_records(self) -> bool:
        """True if it asks for something that only the record of an event tells, not its row or its text."""
        return any(one.key in _IN_RECORDS for one in self.event) or any(
            each.of_records for choice in self.either for each in choice
        )

    def of(self, key: str) -> list[Filter]:
        """Return the filters of a name that must hold, but for negated ones."""
        return [one for one in (*self.conversation, *self.event) if one.key == key and not one.negated]

    def in_time(self, time_ms: int) -> bool:
        """Return whether a time is within the limits of the query."""
        after, before = self.after_ms, self.before_ms
        return (after is None or time_ms >= after) and (before is None or time_ms < before)

    def means(self, entry: ContextEntry) -> bool:
        """Return whether a conversation meets the filters, those of ``either`` aside."""
        return all(one.fits(*_OF_CONVERSATIONS[one.key](entry)) for one in self.conversation)


def parse(text: str, now_ms: int) -> Query:
    """Return the query that ``text`` states. UsageError if it is empty, too long, or cannot be understood."""
    if len(text) > MOST_CHARACTERS:
        raise UsageError(f"a query of {len(text)} characters is too long: {MOST_CHARACTERS} are the most")
    groups = _grouped([_Token(found) for found in _TOKEN.finditer(text.rstrip())])
    ignore_case = not any(has_capitals(token.spoken) for group in groups for token in group)
    query = _all([group[0] for group in groups if len(group) == 1], ignore_case, now_ms)
    choices = [tuple(_all([token], ignore_case, now_ms) for token in group) for group in groups if len(group) > 1]
    if any(each == Query() for choice in choices for each in choice):
        raise UsageError(f"{_OR} stands between two things to search for")
    query = structs.replace(query, either=tuple(choices))
    if query == Query(without=query.without):
        raise UsageError('nothing to search for: say words, a "phrase", a /regex/, or where to look (project:, role:)')
    return query


class _Token:
    """A part of a query. Raises UsageError for a filter that there is none of."""

    def __init__(self, found: re.Match[str]) -> None:
        self.key, self.value = found["key"], found["value"] if found["quoted"] is None else found["quoted"]
        self.phrase, self.regex, self.word = found["phrase"], found["regex"], found["word"]
        self.negated = bool(found["minus"])
        if self.key and self.key not in FILTERS:
            said = f"{self.key}:{self.value}"
            if not self.value.startswith(_NO_VALUE):
                from difflib import get_close_matches

                near = get_close_matches(self.key, FILTERS, 1, 0)[0]
                raise UsageError(
                    f"there is no filter {self.key}: (the nearest is {near}:); as a text, put it in double quotes: "
                    f'"{said}"'
                )
            self.key, self.word = None, said

    @property
    def spoken(self) -> str:
        return self.regex or self.phrase or self.word or ""

    @property
    def is_or(self) -> bool:
        return self.word == _OR and not self.negated


def _grouped(tokens: Sequence[_Token]) -> list[list[_Token]]:
    """Return the tokens, those with ``OR`` between them together."""
    groups: list[list[_Token]] = []
    joined = True
    for token in tokens:
        if token.is_or:
            if joined:
                break
            joined = True
        elif joined and groups:
            groups[-1].append(token)
            joined = False
        else:
            groups.append([token])
            joined = False
    if joined and tokens:
        raise UsageError(f"{_OR} stands between two things to search for")
    return groups


def _all(tokens: Sequence[_Token], ignore_case: bool, now_ms: int) -> Query:
    """Return the query for all of some tokens."""
    terms: dict[bool, list[Term]] = {False: [], True: []}
    filters: list[Filter] = []
    kinds: frozenset[Kind] | None = None
    times: dict[str, list[int]] = {"after": [], "before": []}
    for token in tokens:
        key, value = token.key, token.value
        if not key:
            if (term := _term(token, ignore_case=ignore_case)) is not None:
                terms[token.negated].append(term)
        elif key in times:
            if token.negated:
                raise UsageError(f"-{key}: makes no sense: {'before' if key == 'after' else 'after'}: is its opposite")
            times[key].append(_time(key, value, now_ms))
        elif key in _SETS:
            asked = _one_of(key, value, _SETS[key])
            asked = frozenset(Kind) - asked if token.negated else asked
            kinds = asked if kinds is None else kinds & asked
        else:
            if key == "is":
                _one_of(key, value, _STATES)
            pattern = re.escape(value) if key in _IN_PART else rf"\A{translate(value)}"
            filters.append(Filter(key, re.compile(pattern, re.IGNORECASE), token.negated))
    words = [token.word for token in tokens if token.word and not token.negated]
    return Query(
        tuple(terms[False]),
        Literal(" ".join(words), ignore_case=ignore_case) if len(words) > 1 else None,
        tuple(terms[True]),
        tuple(one for one in filters if one.key in _OF_CONVERSATIONS),
        tuple(one for one in filters if one.key in _OF_EVENTS),
        kinds,
        max(times["after"], default=None),
        min(times["before"], default=None),
    )


def _one_of(key: str, value: str, choices: Mapping[str, T]) -> T:
    if (found := choices.get(value.lower())) is None:
        raise UsageError(f"{key}:{value} is none: it is one of {', '.join(choices)}")
    return found


def _term(token: _Token, *, ignore_case: bool) -> Term | None:
    if token.regex:
        return Regex(token.regex, ignore_case=ignore_case)
    text = token.phrase if token.phrase is not None else token.word
    return Literal(text, ignore_case=ignore_case) if text else None


def _time(key: str, value: str, now_ms: int) -> int:
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    days = _NAMED_DAYS.get(value.lower())
    try:
        if days is not None:
            time = midnight - timedelta(days=days)
        elif (ago := _AGO.fullmatch(value.lower())) and (len(ago[1]) < 4 or ago[2]):
            time = (now if ago[2] == "h" else midnight) - timedelta(seconds=int(ago[1]) * SPANS[ago[2] or "d"])
        elif day := _DAY.fullmatch(value):
            time = datetime(int(day[1]), int(day[2] or 1), int(day[3] or 1), tzinfo=UTC)
        else:
            time = datetime.fromisoformat(value)
            time = time if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise UsageError(
            f"{key}:{value} is no day: say 2026-03-05, 2026-03, yesterday, or how long ago: 7, 2w"
        ) from None
    return round(time.timestamp() * 1000)
