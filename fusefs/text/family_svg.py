"""``family.svg``: a conversation, its earlier versions, and the forks around it, as lines that branch off each other.

From left to right are the records; a line begins where it goes on by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import quote

from fusefs.text.amounts import counted
from fusefs.text.grammar import timestamp
from fusefs.text.svg import attribute, document, fitting, shown, text, width_of
from store.insight.family import Family, Line

_WIDTH, _EDGE, _TOP = 960, 32, 96
_LANE, _VERSION_LANE = 46, 28
_BEND = 12
_LABEL = 480
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
    # what branches off goes below what it branches off from
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


def _head(family: Family, own: Line) -> Iterator[str]:
    forks = sum(not line.version for line in family.lines) - 1
    versions = sum(line.version > 0 for line in family.lines)
    yield text(_EDGE, 46, fitting(own.title, _WIDTH - 2 * _EDGE, 24, bold=True), "big")
    counts = [counted(own.records, "record"), counted(versions, "earlier version"), counted(forks, "relative")]
    yield text(_EDGE, 70, ", ".join(counts), "dim")


def _x(record: int, longest: int) -> float:
    return _EDGE + 8 + (_WIDTH - 2 * _EDGE - 16) * record / longest


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
    label, classes, size = f"{fitting(line.title, _LABEL)} · {line.records:,}", "head" if own else "", 15 if own else 13
    if line.version:
        label, classes, size = f"version {line.version} · {line.action} · {_day(line.time_ms)}", "dim small", 11
    room = width_of(label, size, bold=own)
    yield text(max(min(start + 4, _WIDTH - _EDGE - room), _EDGE), y - 8, label, classes)


def _day(time_ms: int) -> str:
    return timestamp(time_ms)[:10] if time_ms else ""


def _line_told(line: Line) -> str:
    if line.version:
        return f"version {line.version} ({line.action}), {counted(line.records, 'record')}"
    begins = f", from record {line.shared + 1:,} on by itself" if line.parent >= 0 else ""
    return f"{line.project}/{line.name}: {line.title}, {counted(line.records, 'record')}{begins}"


def _told(family: Family) -> str:
    return ". ".join(_line_told(family.lines[at]) for at in _order(family)) + "."
