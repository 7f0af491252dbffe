"""Pieces of SVG drawings: colours for light and dark, text that fits, elements with what they mean.

Drawings need nothing from outside and run no scripts. Colours are classes, so that one style sheet has them for both
kinds of screens. Text is text, in whatever sans-serif there is, so how wide it gets can only be guessed.

``family.svg``: a conversation, its earlier versions, and the forks around it, as lines that branch off each other.

From left to right are the records; a line begins where it goes on by itself. Its name stands beside the graph, where no
line goes.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from html import escape
from urllib.parse import quote

from fusefs.text.amounts import count_text, counted, dollars_text, share_text, size_text
from fusefs.text.grammar import timestamp
from store.insight.family import Family, FamilyLine
from store.insight.report import DaySpent, Spent, StatsReport
from store.upkeep.stats import Stats
from store.visible import UNSEEN

_NARROW = frozenset("fijlrtI.,:;'|!()[] ")
_WIDE = frozenset("mwMWQOGDHNU@%_")

_unseen = re.compile(rf"[{UNSEEN}\ufffe\uffff]")

# Okabe and Ito's colours, which most people can tell apart, a little lighter in the dark.
_STYLE = """
svg { background: #ffffff; font: 13px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
.page { fill: #ffffff } .grid { stroke: #dde0e6; stroke-width: 1 }
text { fill: #1c2330 } .dim { fill: #5c6675 } .big { font-size: 24px; font-weight: 600 }
.head { font-size: 15px; font-weight: 600 } .small { font-size: 11px }
.on { font-weight: 600 } .on.a, .on.c, .on.f { fill: #ffffff } .on.b, .on.d, .on.e { fill: #0d1015 }
.a { fill: #0072b2 } .b { fill: #e69f00 } .c { fill: #009e73 } .d { fill: #cc79a7 } .e { fill: #56b4e9 }
.f { fill: #d55e00 } .rest { fill: #c3c9d3 }
path.line { fill: none; stroke-width: 3; stroke-linecap: round; stroke-linejoin: round }
.line.a { stroke: #0072b2 } .line.b { stroke: #e69f00 } .line.c { stroke: #009e73 } .line.d { stroke: #cc79a7 }
.line.e { stroke: #56b4e9 } .line.f { stroke: #d55e00 }
path.line.rest { stroke: #a9b1be; stroke-width: 2; stroke-dasharray: 1 6 }
a:hover text { text-decoration: underline }
@media (prefers-color-scheme: dark) {
svg { background: #14171d } .page { fill: #14171d } .grid { stroke: #343b47 }
text { fill: #e8ebf0 } .dim { fill: #9aa5b5 }
.a { fill: #4aa8e0 } .b { fill: #f0b73c } .c { fill: #35c69c } .d { fill: #e29cc4 } .e { fill: #86cbf3 }
.f { fill: #f0834a } .rest { fill: #4a5362 }
.on.a, .on.b, .on.c, .on.d, .on.e, .on.f { fill: #0d1015 }
.line.a { stroke: #4aa8e0 } .line.b { stroke: #f0b73c } .line.c { stroke: #35c69c } .line.d { stroke: #e29cc4 }
.line.e { stroke: #86cbf3 } .line.f { stroke: #f0834a } .line.rest { stroke: #6b7687 }
}
"""


def shown(text: str) -> str:
    """Return ``text`` as XML can say it, on one line."""
    return escape(" ".join(_seen(text).split()), quote=False)


def attribute(value: str) -> str:
    """Return a value of an attribute, with its quotes."""
    return f'"{escape(_seen(value))}"'


def _seen(text: str) -> str:
    return _unseen.sub(" ", text).encode("utf-8", "replace").decode()


def width_of(text: str, size: float = 13, *, bold: bool = False) -> float:
    """Return about how wide ``text`` gets in a font of ``size`` pixels: seldom less than it does."""
    units = sum(1.0 if ord(c) > 0x2E80 else 0.38 if c in _NARROW else 0.9 if c in _WIDE else 0.62 for c in text)
    return units * size * (1.14 if bold else 1.0)


def fitting(text: str, room: float, size: float = 13, *, bold: bool = False) -> str:
    """Return as much of ``text`` as fits into ``room`` pixels, with an ellipsis where something is left out."""
    text = " ".join(text.split())
    if width_of(text, size, bold=bold) <= room:
        return text
    while text and width_of(text + "…", size, bold=bold) > room:
        text = text[:-1]
    return text.rstrip() + "…"


def text(x: float, y: float, words: str, classes: str = "", *, end: bool = False, middle: bool = False) -> str:
    """Return a text whose baseline begins at a point; or has its ``end`` or ``middle`` there."""
    anchor = ' text-anchor="end"' if end else ' text-anchor="middle"' if middle else ""
    class_ = f' class="{classes}"' if classes else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{class_}{anchor}>{shown(words)}</text>'


def bar(x: float, y: float, width: float, height: float, classes: str, told: str = "", *, round_: float = 3) -> str:
    """Return a bar; ``told`` is its meaning, for those who cannot see it or point at it."""
    radius = min(round_, width / 2, height / 2)
    shape = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius:.1f}"'
    inside = f"><title>{shown(told)}</title></rect>" if told else "/>"
    return f'<rect {shape} class="{classes}"{inside}'


def document(width: float, height: float, title: str, told: str, pieces: Iterable[str]) -> bytes:
    """Return a drawing. ``title`` and ``told`` are read to those who cannot see it."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}"'
        f' height="{height:.0f}" role="img" aria-labelledby="title told">'
    )
    lines = [
        head,
        f'<title id="title">{shown(title)}</title>',
        f'<desc id="told">{shown(told)}</desc>',
        f"<style>{_STYLE}</style>",
        f'<rect class="page" width="{width:.0f}" height="{height:.0f}"/>',
        *pieces,
        "</svg>",
    ]
    return ("\n".join(lines) + "\n").encode()


_WIDTH, _EDGE, _TOP = 960, 32, 96
_LANE, _VERSION_LANE = 46, 28
_BEND = 12
_GRAPH, _LABEL = 560, 344
"""The widths of the graph, and of the names to its right."""
_OWN, _OTHERS = "f", ("a", "c", "d", "b", "e")


def family_svg(family: Family, path_of: Mapping[tuple[int, int], str]) -> bytes:
    """Return the drawing; ``path_of`` has paths, relative to the file, by contexts and versions (0: as it is now)."""
    order = _order(family)
    lanes: dict[int, float] = {}
    y = float(_TOP)
    for at in order:
        y += _VERSION_LANE if family.lines[at].version else _LANE
        lanes[at] = y
    longest = max((line.records for line in family.lines), default=0) or 1
    own = family.lines[family.own]
    pieces = [*_head(family, own), *_axis(longest, _TOP, y + 20)]
    # a branch goes below its origin
    for at in sorted(order, reverse=True):
        line = family.lines[at]
        drawn = "".join(_line(family, at, lanes, longest))
        target = path_of.get((line.context, line.version)) if at != family.own else None
        pieces.append(f"<a href={attribute(quote(target))}>{drawn}</a>" if target else drawn)
    height = y + 44
    if family.left_out:
        pieces.append(text(_EDGE, height, f"and {family.left_out:,} more forks and versions", "dim"))
        height += 28
    return document(_WIDTH, height, f"The family of {own.title}", _told(family), pieces)


def _order(family: Family) -> list[int]:
    """Return lines from top to bottom: the earlier versions of the conversation itself above it, all else below."""
    versions = [at for at, line in enumerate(family.lines) if line.version]
    others = [at for at, line in enumerate(family.lines) if not line.version]
    place = others.index(family.own)
    return [*others[:place], *versions, *others[place:]]


def _head(family: Family, own: FamilyLine) -> Iterator[str]:
    forks = sum(not line.version for line in family.lines) - 1
    versions = sum(line.version > 0 for line in family.lines)
    yield text(_EDGE, 46, fitting(own.title, _WIDTH - 2 * _EDGE, 24, bold=True), "big")
    counts = [counted(own.records, "record"), counted(versions, "earlier version"), counted(forks, "relative")]
    yield text(_EDGE, 70, ", ".join(counts), "dim")


def _x(record: int, longest: int) -> float:
    return _EDGE + 8 + (_GRAPH - _EDGE - 28) * record / longest


def _axis(longest: int, top: float, bottom: float) -> Iterator[str]:
    step = next(
        size for power in range(12) for size in (10**power, 2 * 10**power, 5 * 10**power) if longest / size <= 8
    )
    for record in range(0, longest + 1, step):
        x = _x(record, longest)
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{bottom:.1f}"/>'
        yield text(x, top - 4, f"{record:,}", "dim small", middle=True)


def _line(family: Family, at: int, lanes: Mapping[int, float], longest: int) -> Iterator[str]:
    line, y, own = family.lines[at], lanes[at], at == family.own
    start, end = _x(line.shared, longest), _x(line.records, longest)
    class_ = "rest" if line.version else _OWN if own else _OTHERS[at % len(_OTHERS)]
    path = f"M {start:.1f} {y:.1f}"
    if line.parent >= 0:
        from_, bend = lanes[line.parent], _BEND if lanes[line.parent] < y else -_BEND
        x = start - _BEND if line.shared else start - 4
        path = f"M {x:.1f} {from_:.1f} V {y - bend:.1f} Q {x:.1f} {y:.1f} {x + _BEND:.1f} {y:.1f}"
        start, end = x + _BEND, max(end, x + _BEND)
    yield f'<path class="line {class_}" d="{path} H {end:.1f}"><title>{shown(_line_told(line))}</title></path>'
    yield f'<circle class="{class_}" cx="{end:.1f}" cy="{y:.1f}" r="{3.5 if line.version else 5.5}"/>'
    yield f'<line class="grid" x1="{end + 9:.1f}" x2="{_GRAPH + 14:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
    if line.version:
        label, classes, size = f"version {line.version} · {line.action} · {_day(line.time_ms)}", "dim small", 11
    else:
        count = f" · {line.records:,}"
        classes, size = ("head", 15) if own else ("", 13)
        room = _LABEL - width_of(count, size, bold=own)
        label = fitting(line.title or line.name, room, size, bold=own) + count
    yield text(_GRAPH + 24, y + size * 0.36, fitting(label, _LABEL, size, bold=own), classes)


def _day(time_ms: int) -> str:
    return timestamp(time_ms)[:10] if time_ms else ""


def _line_told(line: FamilyLine) -> str:
    if line.version:
        return f"version {line.version} ({line.action}), {counted(line.records, 'record')}"
    begins = f", from record {line.shared + 1:,} on by itself" if line.parent >= 0 else ""
    return f"{line.project}/{line.name}: {line.title}, {counted(line.records, 'record')}{begins}"


def _told(family: Family) -> str:
    return ". ".join(_line_told(family.lines[at]) for at in _order(family)) + "."


_GAP = 24
_INNER = _WIDTH - 2 * _EDGE
_HALF = (_INNER - _GAP) / 2
_DAYS = 60
_ROWS = 8
_ROW = 26
_CHART = 150
_UNKNOWN = "(unknown)"

Row = tuple[str, float, str]
"""The subject of a bar, its length in any unit, and its text."""


def stats_svg(stats: Stats, report: StatsReport) -> bytes:
    """Return the drawing."""
    pieces: list[str] = [*_stats_head(stats, report)]
    y = 92.0
    if report.logical_bytes or report.stored_bytes:
        pieces += _storage(report, y)
        y += 132
    by_cost = report.total.cost > 0
    if report.total.answers:
        pieces += _days(report.days, y, by_cost=by_cost)
        y += _CHART + 86
        models = [(model.model or _UNKNOWN, *_amount(model, by_cost=by_cost)) for model in report.models]
        projects = [(one.project or _UNKNOWN, *_amount(one, by_cost=by_cost)) for one in report.projects if one.answers]
        what = "Cost" if by_cost else "Tokens answered"
        pieces += _rows(_EDGE, y, f"{what} by model", models, "a")
        pieces += _rows(_EDGE + _HALF + _GAP, y, f"{what} by project", projects, "c")
        y += _height(max(len(models), len(projects)))
    tools = [(tool.tool, float(tool.calls), f"{tool.calls:,}") for tool in report.tools]
    sizes = [(one.project, float(one.bytes), size_text(one.bytes)) for one in report.projects if one.bytes]
    sizes.sort(key=lambda row: -row[1])
    if tools or sizes:
        pieces += _rows(_EDGE, y, "Tools by calls", tools, "d")
        pieces += _rows(_EDGE + _HALF + _GAP, y, "Projects by size", sizes, "e")
        y += _height(max(len(tools), len(sizes)))
    pieces += _foot(report, y)
    return document(_WIDTH, y + 36, "What this store holds and what it cost", _stats_told(stats, report), pieces)


def _stats_head(stats: Stats, report: StatsReport) -> Iterator[str]:
    held = f"{counted(stats.conversations, 'conversation')}, {counted(stats.events, 'event')}"
    yield text(_EDGE, 46, held, "big")
    if report.total.answers:
        spent = report.total
        sent = spent.input + spent.cache_read + spent.cache_write
        cached = f"{share_text(spent.cache_read, sent)} of them from caches"
        said = f"{count_text(spent.output)} answered, in {spent.answers:,} answers"
        yield text(_EDGE, 70, f"{count_text(sent)} tokens sent, {cached}; {said}", "dim")
        if report.total.cost:
            yield text(_WIDTH - _EDGE, 46, dollars_text(spent.cost), "big", end=True)


def _storage(report: StatsReport, y: float) -> Iterator[str]:
    """Draw a bar for the whole amount, and in it the stored part, and the parts not stored, with the reasons."""
    saved = report.saved
    parts = [
        ("stored", report.stored_bytes, "a"),
        ("compression", saved.compression, "e"),
        ("differences", saved.delta, "c"),
        ("kept once", saved.deduplication, "b"),
    ]
    whole = sum(size for _name, size, _class in parts) or 1
    yield text(_EDGE, y + 14, f"{size_text(report.logical_bytes)} in {size_text(report.stored_bytes)}", "head")
    told = "what every conversation, fork and version would take, and what they do"
    yield text(_WIDTH - _EDGE, y + 14, told, "dim", end=True)
    x = key = float(_EDGE)
    for name, size, class_ in parts:
        width = _INNER * size / whole
        said = f"{name}: {size_text(size)} ({share_text(size, whole)})"
        if width >= 1:
            yield bar(x, y + 28, width, 34, class_, said, round_=0)
        share = share_text(size, whole)
        if width > width_of(share) + 12:
            yield text(x + width / 2, y + 50, share, f"on {class_}", middle=True)
        x += width
        yield bar(key, y + 78, 12, 12, class_)
        label = f"{name} {size_text(size)}"
        yield text(key + 18, y + 89, label)
        key += 18 + width_of(label) + 28


def _days(days: Sequence[DaySpent], y: float, *, by_cost: bool) -> Iterator[str]:
    """Draw a bar for each of the last days; one without answers is a dot on the ground."""
    dated = _calendar(days)
    what = "Cost" if by_cost else "Tokens answered"
    yield text(_EDGE, y + 14, f"{what} by day", "head")
    if not dated:
        return
    worked = sum(day.answers > 0 for day in dated)
    note = f"{worked:,} of {counted(len(dated), 'day')} with answers, UTC"
    yield text(_WIDTH - _EDGE, y + 14, note, "dim", end=True)
    amounts = [_amount(day, by_cost=by_cost) for day in dated]
    highest = max(value for value, _said in amounts) or 1
    bottom = y + 34 + _CHART
    left = _EDGE + 56.0
    for part in (0.0, 0.5, 1.0):
        at = bottom - part * _CHART
        yield f'<line class="grid" x1="{left:.1f}" x2="{_WIDTH - _EDGE}" y1="{at:.1f}" y2="{at:.1f}"/>'
        said = dollars_text(part * highest) if by_cost else count_text(part * highest)
        yield text(left - 8, at + 4, said, "dim small", end=True)
    room = _WIDTH - _EDGE - left
    step = min(room / len(dated), 64)
    width = max(1.0, step * 0.72)
    last_label, year = -1e9, ""
    for number, (day, (value, said)) in enumerate(zip(dated, amounts, strict=True)):
        height = max(_CHART * value / highest, 1.5)
        x = left + step * number + (step - width) / 2
        if day.answers:
            told = f"{day.day}: {said}, {counted(day.answers, 'answer')}, {count_text(day.output)} tokens"
            yield bar(x, bottom - height, width, height, "a", told, round_=2)
        else:
            size = min(width, 4)
            yield bar(x + (width - size) / 2, bottom - size - 2, size, size, "rest", f"{day.day}: no answers", round_=2)
        label = day.day[5:] if day.day[:4] == year else day.day
        if x + width / 2 - last_label > width_of(label, 11) + 14:
            yield text(x + width / 2, bottom + 16, label, "dim small", middle=True)
            last_label, year = x + width / 2 + width_of(label, 11) / 2, day.day[:4]


def _calendar(days: Sequence[DaySpent]) -> list[DaySpent]:
    """Return the last days up to the last one with answers, those without any as well."""
    found = {day.day: day for day in days if day.day}
    if not found:
        return []
    last = date.fromisoformat(max(found))
    first = max(date.fromisoformat(min(found)), last - timedelta(days=_DAYS - 1))
    names = ((first + timedelta(days=at)).isoformat() for at in range((last - first).days + 1))
    return [found.get(name) or DaySpent(day=name) for name in names]


def _rows(x: float, y: float, title: str, rows: Sequence[Row], class_: str) -> Iterator[str]:
    yield text(x, y + 14, title, "head")
    shown = rows[:_ROWS]
    highest = max((value for _name, value, _said in shown), default=0) or 1
    names, amounts = 150.0, 64.0
    room = _HALF - names - amounts
    for number, (name, value, said) in enumerate(shown):
        at = y + 30 + _ROW * number
        yield text(x, at + 13, fitting(name, names - 12))
        yield bar(x + names, at + 1, max(room * value / highest, 1.5), 16, class_, f"{name}: {said}")
        yield text(x + names + max(room * value / highest, 1.5) + 8, at + 13, said, "dim")
    if len(rows) > len(shown):
        yield text(x, y + 30 + _ROW * len(shown) + 13, f"and {len(rows) - len(shown)} more", "dim")


def _height(rows: int) -> float:
    return 30 + _ROW * (min(rows, _ROWS) + (rows > _ROWS)) + 34


def _amount(spent: Spent, *, by_cost: bool) -> tuple[float, str]:
    return (spent.cost, dollars_text(spent.cost)) if by_cost else (float(spent.output), count_text(spent.output))


def _foot(report: StatsReport, y: float) -> Iterator[str]:
    notes = []
    if report.total.cost:
        notes.append(f"Costs are at prices of {report.prices_of}, but for {dollars_text(report.total.told_cost)} that")
        notes[-1] += " sessions say themselves"
    if report.total.unpriced:
        notes.append(f"{report.total.unpriced:,} answers have no known price")
    if not report.complete:
        notes.append(f"still counting: {report.counted_turns:,} records so far")
    if notes:
        yield text(_EDGE, y + 8, fitting("; ".join(notes) + ".", _INNER, 11), "dim small")


def _stats_told(stats: Stats, report: StatsReport) -> str:
    spent, saved = report.total, report.saved
    parts = [
        f"{counted(stats.conversations, 'conversation')} with {counted(stats.events, 'event')}.",
        f"{size_text(report.logical_bytes)} are stored in {size_text(report.stored_bytes)}:",
        f"{size_text(saved.deduplication)} are saved by keeping everything once,",
        f"{size_text(saved.delta)} by differences, {size_text(saved.compression)} by compression.",
    ]
    if spent.answers:
        took = f"{count_text(spent.output)} tokens, {dollars_text(spent.cost)}"
        parts.append(f"{counted(spent.answers, 'answer')} of models, {took}.")
        parts += [f"{model.model or _UNKNOWN}: {dollars_text(model.cost)}." for model in report.models[:_ROWS]]
    return " ".join(parts)
