"""What writing a new record has in common in all formats: checking what is said, looking at the one before."""

from collections.abc import Iterable

from store.errors import UsageError
from store.events.event import Kind
from store.formats.json_view import JsonObject, as_object, decode
from store.formats.new_literals import encoded


def check_said(text: str, kind: Kind, kinds: Iterable[Kind]) -> None:
    """Raise UsageError for a text that a person cannot write as a record of that kind, where ``kinds`` can be.

    That is a kind that is none of these, an empty text, and one that is no valid Unicode.
    """
    # what people write most comes first
    allowed = [one.name.lower() for one in sorted(kinds, key=lambda one: (one is Kind.SYSTEM, one))]
    if kind.name.lower() not in allowed:
        said = f"{', '.join(allowed[:-1])} or {allowed[-1]}"
        raise UsageError(f"a {kind.name.lower()} cannot be written by hand here: write {said}")
    check_text(text)


def check_text(text: str) -> None:
    """Raise UsageError for a text that says nothing, or is no valid Unicode."""
    encoded(text)
    if not text:
        raise UsageError("an empty message says nothing: write its text, then save again")


def object_before(previous: bytes | None) -> JsonObject:
    """Return the record that a new one follows; an empty object where there is none, or it is none."""
    decoded = decode(previous) if previous else None
    return as_object(decoded.value) if decoded else {}
