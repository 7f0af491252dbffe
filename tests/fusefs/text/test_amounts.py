import pytest

from fusefs.text.amounts import count_text, counted, dollars_text, share_text, size_text


@pytest.mark.parametrize(
    ("size", "said"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 KB"), (14_565, "14.6 KB"), (250_000, "250 KB"), (3.2e12, "3.2 TB")],
)
def test_sizes_are_said_as_people_say_them(size: float, said: str) -> None:
    assert size_text(size) == said


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0"), (999, "999"), (1000, "1.0K"), (9940, "9.9K"), (9960, "10K"), (999_499, "999K"), (999_600, "1.0M")],
)
def test_counts_are_said_as_people_say_them(count: float, said: str) -> None:
    assert count_text(count) == said


@pytest.mark.parametrize(
    ("dollars", "said"), [(0, "$0.00"), (0.001, "<$0.01"), (0.005, "$0.01"), (1234.567, "$1,234.57")]
)
def test_money(dollars: float, said: str) -> None:
    assert dollars_text(dollars) == said


def test_shares() -> None:
    assert share_text(23, 100) == "23 %"
    assert share_text(0, 0) == "0 %"


def test_one_and_many() -> None:
    assert [counted(count, "event") for count in (0, 1, 1200)] == ["0 events", "1 event", "1,200 events"]
