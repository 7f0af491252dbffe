r"""Queries: words, phrases, regular expressions, and where to look.

::

    connection reset                 both words, anywhere in an event, in any order
    "connection reset by peer"       these words exactly
    /time(d )?out after \d+ s/        a regular expression (Python's), within a line
    -retry                           not with this; with anything that can be asked for
    project:shop tool:Bash* role:assistant label:bug uri:main.py after:2026-03-01 before:2026-04 after:7

Lower-case queries are case-insensitive; one with a capital in a word, a phrase or a regular expression is not.
Words are found within words. ``project:``, ``tool:`` and ``label:`` take whole names, in which ``*`` stands for
anything; ``uri:`` takes any part of one. ``role:`` is ``user``, ``assistant`` (what a model says, thinks and calls),
``tool`` (what came back) or ``system``, or a word that event files are named by (``call``, ``result``, ``reasoning``,
``question``, ``answer``, ``summary``, ``note``, ``config``). Days are UTC: ``after:`` begins with one, ``before:`` ends
before it; a number means that many days ago. Anything with a space goes in quotes: ``project:"my shop"``.
"""

import re
from datetime import UTC, datetime, timedelta
from fnmatch import translate

from msgspec import Struct

from store.errors import UsageError
from store.events.event import Kind
from store.search.needs import Every, all_of
from store.search.terms import MOST_CHARACTERS, Literal, Regex, Term, has_capitals

_TOKEN = re.compile(
    r"""\s*(?P<minus>-(?=[^\s-]))?(?:
        (?P<key>project|role|tool|uri|label|after|before):(?:"(?P<quoted>[^"]*)"|(?P<value>[^\s"]\S*))(?=\s|$)
        |"(?P<phrase>[^"]*)"(?=\s|$)
        |/(?P<regex>\S.*?|)/(?=\s|$)
        |(?P<word>\S+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_DAY = re.compile(r"(\d{4})(?:-(\d\d?)(?:-(\d\d?))?)?")
_AGO = re.compile(r"(\d{1,6})d?")
_NAMED_DAYS = {"today": 0, "yesterday": 1}

_ROLES: dict[str, frozenset[Kind]] = {
    "user": frozenset((Kind.USER, Kind.ANSWER)),
    "assistant": frozenset((Kind.ASSISTANT, Kind.REASONING, Kind.TOOL_CALL, Kind.QUESTION)),
    "tool": frozenset((Kind.TOOL_RESULT,)),
    "system": frozenset((Kind.SYSTEM, Kind.CONFIG)),
    "call": frozenset((Kind.TOOL_CALL,)),
    "result": frozenset((Kind.TOOL_RESULT,)),
    "reasoning": frozenset((Kind.REASONING,)),
    "question": frozenset((Kind.QUESTION,)),
    "answer": frozenset((Kind.ANSWER,)),
    "summary": frozenset((Kind.SUMMARY,)),
    "note": frozenset((Kind.NOTE,)),
    "config": frozenset((Kind.CONFIG,)),
}


class Filter(Struct, frozen=True):
    """A condition on an event or its conversation: the value must fit, or must not (``negated``)."""

    pattern: re.Pattern[str]
    negated: bool

    def fits(self, *values: str) -> bool:
        """Return whether one of some values meets the condition."""
        return any(self.pattern.search(value) for value in values) != self.negated


class Query(Struct, frozen=True):
    """A query, all conditions of which must hold. Times are Unix milliseconds; ``kinds`` None: all.

    ``phrase`` is the words of the query in their order, None if there is only one.
    """

    terms: tuple[Term, ...] = ()
    phrase: Term | None = None
    without: tuple[Term, ...] = ()
    projects: tuple[Filter, ...] = ()
    labels: tuple[Filter, ...] = ()
    tools: tuple[Filter, ...] = ()
    uris: tuple[Filter, ...] = ()
    kinds: frozenset[Kind] | None = None
    after_ms: int | None = None
    before_ms: int | None = None

    @property
    def need(self) -> Every:
        return all_of(term.need for term in self.terms)

    def in_time(self, time_ms: int) -> bool:
        """Return whether a time is within the limits of the query."""
        after, before = self.after_ms, self.before_ms
        return (after is None or time_ms >= after) and (before is None or time_ms < before)


def parse(text: str, now_ms: int) -> Query:
    """Return the query that ``text`` states. UsageError if it is empty, too long, or cannot be understood."""
    if len(text) > MOST_CHARACTERS:
        raise UsageError(f"a query of {len(text)} characters is too long: {MOST_CHARACTERS} are the most")
    tokens = list(_TOKEN.finditer(text.rstrip()))
    spoken = [token for token in tokens if not token["key"]]
    ignore_case = not any(has_capitals(token["regex"] or token["phrase"] or token["word"] or "") for token in spoken)
    terms: dict[bool, list[Term]] = {False: [], True: []}
    for token in spoken:
        if (term := _term(token, ignore_case=ignore_case)) is not None:
            terms[bool(token["minus"])].append(term)
    filters: dict[str, list[Filter]] = {"project": [], "label": [], "tool": [], "uri": []}
    kinds: frozenset[Kind] | None = None
    times: dict[str, list[int]] = {"after": [], "before": []}
    for token in tokens:
        key, negated = token["key"], bool(token["minus"])
        value = token["quoted"] if token["quoted"] is not None else token["value"]
        if key in filters:
            pattern = re.escape(value) if key == "uri" else rf"\A{translate(value)}"
            filters[key].append(Filter(re.compile(pattern, re.IGNORECASE), negated))
        elif key == "role":
            if (asked := _ROLES.get(value.lower())) is None:
                raise UsageError(f"role:{value} is none: it is one of {', '.join(_ROLES)}")
            asked = frozenset(Kind) - asked if negated else asked
            kinds = asked if kinds is None else kinds & asked
        elif key:
            if negated:
                raise UsageError(f"-{key}: makes no sense: {'before' if key == 'after' else 'after'}: is its opposite")
            times[key].append(_time(key, value, now_ms))
    words = [token["word"] for token in spoken if token["word"] and not token["minus"]]
    query = Query(
        tuple(terms[False]),
        Literal(" ".join(words), ignore_case=ignore_case) if len(words) > 1 else None,
        tuple(terms[True]),
        tuple(filters["project"]),
        tuple(filters["label"]),
        tuple(filters["tool"]),
        tuple(filters["uri"]),
        kinds,
        max(times["after"], default=None),
        min(times["before"], default=None),
    )
    if query == Query(without=query.without):
        raise UsageError('nothing to search for: say words, a "phrase", a /regex/, or where to look (project:, role:)')
    return query


def _term(token: re.Match[str], *, ignore_case: bool) -> Term | None:
    if token["regex"]:
        return Regex(token["regex"], ignore_case=ignore_case)
    text = token["phrase"] if token["phrase"] is not None else token["word"]
    return Literal(text, ignore_case=ignore_case) if text else None


def _time(key: str, value: str, now_ms: int) -> int:
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    days = _NAMED_DAYS.get(value.lower())
    try:
        if days is None and (ago := _AGO.fullmatch(value)) and (len(ago[1]) < 4 or value.endswith("d")):
            days = int(ago[1])
        if days is not None:
            time = midnight - timedelta(days=days)
        elif day := _DAY.fullmatch(value):
            time = datetime(int(day[1]), int(day[2] or 1), int(day[3] or 1), tzinfo=UTC)
        else:
            time = datetime.fromisoformat(value)
            time = time if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise UsageError(f"{key}:{value} is no day: say 2026-03-05, 2026-03, or how many days ago") from None
    return round(time.timestamp() * 1000)
