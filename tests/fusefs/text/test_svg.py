"""Drawings are XML whatever is in them, and say what they show in words."""

import re
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from fusefs.text.charts import attribute, family_svg, fitting, shown, stats_svg, text, width_of
from store.insight.family import Family, FamilyLine
from store.insight.report import BytesSaved, DaySpent, ModelSpent, ProjectSpent, Spent, StatsReport, ToolUsed
from store.upkeep.stats import Stats

ANY = st.text(st.characters(), max_size=40)
AMOUNT = st.integers(0, 1 << 50)
SPENT = st.builds(Spent, AMOUNT, AMOUNT, AMOUNT, AMOUNT, AMOUNT, AMOUNT, st.floats(0, 1e9), st.just(0.0), AMOUNT)


def elements(data: bytes) -> ElementTree.Element:
    """Return a drawing, parsed: nothing in it comes from outside, and it runs nothing."""
    root = ElementTree.fromstring(data)
    assert not {"script", "image", "foreignObject", "use"} & {element.tag.rpartition("}")[2] for element in root.iter()}
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == "title told"
    return root


@given(ANY)
def test_any_text_can_be_shown(words: str) -> None:
    drawn = ElementTree.fromstring(text(0, 0, words))
    assert "\n" not in (drawn.text or "")
    ElementTree.fromstring(f"<a href={attribute(words)}>{shown(words)}</a>")


@given(ANY, st.floats(10, 400))
def test_what_fits_is_no_wider_than_its_room(words: str, room: float) -> None:
    assert width_of(fitting(words, room)) <= room or fitting(words, room) == "…"


def spent(kind: type, key: str, value: str, one: Spent) -> Spent:
    amounts = {name: getattr(one, name) for name in one.__struct_fields__}
    found: Spent = kind(**amounts, **{key: value})
    return found


@given(st.lists(st.tuples(ANY, SPENT), max_size=30), SPENT, st.booleans(), st.lists(AMOUNT, min_size=4, max_size=4))
def test_numbers_of_any_kind(rows: list[tuple[str, Spent]], total: Spent, complete: bool, sizes: list[int]) -> None:
    report = StatsReport(
        complete,
        12,
        sum(sizes),
        0,
        sum(sizes),
        sizes[0],
        BytesSaved(*sizes[1:]),
        total,
        "2026-11-20",
        [spent(ProjectSpent, "project", name, one) for name, one in rows],  # type: ignore[misc]  # of that kind
        [spent(ModelSpent, "model", name, one) for name, one in rows],  # type: ignore[misc]  # of that kind
        [spent(DaySpent, "day", f"2026-03-{at + 1:02}", one) for at, (_name, one) in enumerate(rows)],  # type: ignore[misc]  # of that kind
        [ToolUsed(at, at, at, at, tool=name) for at, (name, _one) in enumerate(rows)],
        [],
    )
    root = elements(stats_svg(Stats(1, 2, 3, 4, 5, 6, 7, 8, 9), report))
    for element in root.iter():
        for key in ("width", "height", "x", "y"):
            assert float(element.get(key, "0")) >= 0
    said = " ".join("".join(element.itertext()) for element in root.iter())
    assert "1 conversation, 2 events" in said
    assert complete or "still counting" in said


@given(st.lists(st.tuples(ANY, st.integers(0, 10**9), st.integers(0, 10**9), st.booleans()), min_size=1, max_size=12))
def test_families_of_any_kind(some: list[tuple[str, int, int, bool]]) -> None:
    lines = [
        FamilyLine(
            at, "p", "n", title, records, 0, at - 1 if at else -1, min(shared, records), at if version and at else 0
        )
        for at, (title, records, shared, version) in enumerate(some)
    ]
    root = elements(family_svg(Family(lines, 0, 3), {(line.context, line.version): "../ü/" for line in lines}))
    paths = [element for element in root.iter() if element.tag.endswith("path")]
    assert len(paths) == len(lines)
    drawn = [box for path in paths for box in boxes_of(path.get("d") or "")]
    drawn += (box_of(line) for line in root.iter("{http://www.w3.org/2000/svg}line"))
    labels = [label_box(element) for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert len(labels) > len(lines)
    assert not [(label, line) for label in labels for line in drawn if meet(label, line)]


Box = tuple[float, float, float, float]
"""The left, the top, the right and the bottom."""


def boxes_of(path: str) -> list[Box]:
    """Return the boxes of the strokes of a line, which are straight but for its bend."""
    found = []
    x = y = 0.0
    for word in re.findall(r"[MVHQ][^MVHQ]*", path):
        numbers = [float(number) for number in word[1:].split()]
        if word[0] == "V":
            now = x, numbers[0]
        elif word[0] == "H":
            now = numbers[0], y
        else:
            now = numbers[-2], numbers[-1]
        if word[0] != "M":
            found.append((min(x, now[0]), min(y, now[1]), max(x, now[0]), max(y, now[1])))
        x, y = now
    return found


def box_of(line: ElementTree.Element) -> Box:
    left, top, right, bottom = (float(line.get(key, "")) for key in ("x1", "y1", "x2", "y2"))
    return left, top, right, bottom


def label_box(element: ElementTree.Element) -> Box:
    """Return about what a text covers."""
    words, classes = "".join(element.itertext()), (element.get("class") or "").split()
    size = 24 if "big" in classes else 15 if "head" in classes else 11 if "small" in classes else 13
    width = width_of(words, size, bold="big" in classes or "head" in classes)
    x, y = float(element.get("x", "")), float(element.get("y", ""))
    left = x - width / 2 if element.get("text-anchor") == "middle" else x
    return left, y - size * 0.75, left + width, y + size * 0.2


def meet(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] <= b[3] and b[1] <= a[3]


def test_a_label_on_a_line_is_noticed() -> None:
    (stroke,) = boxes_of("M 10.0 50.0 H 90.0")
    assert meet(label_box(ElementTree.fromstring('<text x="20" y="54">word</text>')), stroke)
    assert not meet(label_box(ElementTree.fromstring('<text x="20" y="40">word</text>')), stroke)


def test_days_without_work_are_there_as_such() -> None:
    one = Spent(answers=2, output=100, cost=1.5)
    some = ["2025-01-01", "2026-03-01", "2026-03-04", "2026-03-10"]
    days = [spent(DaySpent, "day", day, one) for day in some]
    report = StatsReport(True, 1, 0, 0, 0, 0, BytesSaved(0, 0, 0), one, "2026-11-20", [], [], days, [], [])  # type: ignore[arg-type]  # of that kind
    root = elements(stats_svg(Stats(1, 2, 3, 4, 5, 6, 7, 8, 9), report))
    bars = {
        title.text.partition(":")[0]: (float(bar.get("x", "")), bar.get("class"), title.text)
        for bar in root.iter("{http://www.w3.org/2000/svg}rect")
        if (title := bar.find("{http://www.w3.org/2000/svg}title")) is not None and title.text
    }
    # sixty days up to the last one: what was before is not shown
    assert len(bars) == 60
    assert min(bars) == "2026-01-10"
    assert list(bars) == sorted(bars)
    assert [bars[day][1] for day in ("2026-03-03", "2026-03-04", "2026-03-05")] == ["rest", "a", "rest"]
    assert bars["2026-03-05"][2] == "2026-03-05: no answers"
    # a day is as far from the next one, whatever was done on it
    steps = [bars["2026-03-10"][0] - bars["2026-03-04"][0], bars["2026-03-04"][0] - bars["2026-03-01"][0]]
    assert abs(steps[0] - 2 * steps[1]) < 1
    assert "3 of 60 days with answers" in " ".join("".join(element.itertext()) for element in root.iter())
