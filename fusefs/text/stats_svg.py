"""``stats.svg``: what a store holds, what is saved of that, and what answers took and cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fusefs.text.amounts import count_text, counted, dollars_text, share_text, size_text
from fusefs.text.svg import bar, document, fitting, text, width_of
from store.insight.report import DaySpent, Report, Spent
from store.upkeep.stats import Stats

_WIDTH, _EDGE, _GAP = 960, 32, 24
_INNER = _WIDTH - 2 * _EDGE
_HALF = (_INNER - _GAP) / 2
_DAYS = 60
_ROWS = 8
_ROW = 26
_CHART = 150
_UNKNOWN = "(unknown)"

Row = tuple[str, float, str]
"""What a bar is of, how long it is in any unit, and how that is said."""


def stats_svg(stats: Stats, report: Report) -> bytes:
    """Return the drawing."""
    pieces: list[str] = [*_head(stats, report)]
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
    return document(_WIDTH, y + 36, "What this store holds and what it cost", _told(stats, report), pieces)


def _head(stats: Stats, report: Report) -> Iterator[str]:
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


def _storage(report: Report, y: float) -> Iterator[str]:
    """Draw a bar as long as all that there would be, and in it what is stored, and what is not and why."""
    saved = report.saved
    parts = [
        ("stored", report.stored_bytes, "a"),
        ("compression", saved.compression, "e"),
        ("differences", saved.delta, "c"),
        ("kept once", saved.deduplication, "b"),
    ]
    whole = sum(size for _name, size, _class in parts) or 1
    yield text(_EDGE, y + 14, f"{size_text(report.logical_bytes)} in {size_text(report.stored_bytes)}", "head")
    yield text(
        _WIDTH - _EDGE,
        y + 14,
        "what every conversation, fork and version would take, and what they do",
        "dim",
        end=True,
    )
    x = float(_EDGE)
    key = float(_EDGE)
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
    """Draw a bar for each of the last days on which there was anything."""
    dated = [day for day in days if day.day][-_DAYS:]
    what = "Cost" if by_cost else "Tokens answered"
    yield text(_EDGE, y + 14, f"{what} by day", "head")
    if not dated:
        return
    note = f"the last {len(dated)} days with answers" if len(days) > len(dated) else "UTC"
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
        height = max(_CHART * value / highest, 1.5 if value else 0)
        x = left + step * number + (step - width) / 2
        told = f"{day.day}: {said}, {day.answers:,} answers, {count_text(day.output)} tokens"
        yield bar(x, bottom - height, width, height, "a", told, round_=2)
        label = day.day[5:] if day.day[:4] == year else day.day
        if x + width / 2 - last_label > width_of(label, 11) + 14:
            yield text(x + width / 2, bottom + 16, label, "dim small", middle=True)
            last_label, year = x + width / 2 + width_of(label, 11) / 2, day.day[:4]


def _rows(x: float, y: float, title: str, rows: Sequence[Row], class_: str) -> Iterator[str]:
    """Draw bars below each other, longest first."""
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


def _foot(report: Report, y: float) -> Iterator[str]:
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


def _told(stats: Stats, report: Report) -> str:
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
