"""Settings of every type, out of tables."""

from typing import Literal

import pytest
from msgspec import Struct

from store.errors import UsageError
from store.settings import merged


class Price(Struct, frozen=True):
    input: float = 0.0


class Everything(Struct, frozen=True):
    switch: bool = False
    days: int | None = None
    share: float = 0.5
    name: str = "x"
    way: Literal["one", "two"] = "one"
    kept: tuple[str, ...] = ("pinned",)
    prices: dict[str, Price] = {}
    limits: dict[str, int] = {}


def test_each_type_is_taken() -> None:
    table = {
        "switch": True,
        "days": 3,
        "share": 1,
        "name": "y",
        "way": "two",
        "kept": ["a", "b"],
        "prices": {"m": {"input": 1.5}},
        "limits": {"a": 1},
    }
    found, warnings = merged(Everything(), table, "here")
    assert warnings == []
    assert found == Everything(True, 3, 1.0, "y", "two", ("a", "b"), {"m": Price(1.5)}, {"a": 1})
    assert type(found.share) is float


def test_what_a_table_does_not_say_stays_as_it_was() -> None:
    base = Everything(days=3, prices={"m": Price(1.5), "n": Price(2.0)}, limits={"a": 1})
    found, _ = merged(base, {"prices": {"m": {"input": 3}}, "limits": {"b": 2}}, "here")
    assert found == Everything(days=3, prices={"m": Price(3.0), "n": Price(2.0)}, limits={"a": 1, "b": 2})
    assert base.prices["m"] == Price(1.5)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("switch", 1, "switch must be true or false, not 1 (default false)"),
        ("days", True, "days must be a whole number from 0 up, not True (default none)"),
        ("days", None, "days must be a whole number from 0 up, not None (default none)"),
        ("days", 1 << 63, f"days must be a whole number from 0 up, not {1 << 63} (default none)"),
        ("share", -0.5, "share must be a number from 0 up, not -0.5 (default 0.5)"),
        ("share", float("nan"), "share must be a number from 0 up, not nan (default 0.5)"),
        ("share", float("inf"), "share must be a number from 0 up, not inf (default 0.5)"),
        ("name", 1, 'name must be a string, not 1 (default "x")'),
        ("way", "three", 'way must be "one" or "two", not \'three\' (default "one")'),
        ("way", [], 'way must be "one" or "two", not [] (default "one")'),
        ("kept", "a", "kept must be a list of strings, not 'a' (default [\"pinned\"])"),
        ("kept", [1], 'kept must be a list of strings, not [1] (default ["pinned"])'),
        ("limits", {"a": "b"}, "limits.a must be a whole number from 0 up, not 'b'"),
        ("prices", {"m": 1}, "prices.m must be a section of its own, not 1"),
    ],
)
def test_what_does_not_fit_is_told_in_one_line(key: str, value: object, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        merged(Everything(), {key: value}, "here")
    assert str(caught.value) == f"here: {said}"


def test_a_long_value_is_shortened() -> None:
    with pytest.raises(UsageError) as caught:
        merged(Everything(), {"switch": "long\n" * 1000}, "here")
    assert len(str(caught.value)) < 100
    assert "\n" not in str(caught.value)
