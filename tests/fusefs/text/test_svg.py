"""Drawings are XML whatever is in them, and say what they show in words."""

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
