"""What a text must hold for a pattern to be found in it: what the index can be asked for.

The index knows of each document which sequences of three characters are in it, with case folded. So a literal asks for
all of its own; a regular expression for those of the literals that every match must contain. What no three characters
follow from cannot be asked for: then every text is a candidate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from re import _constants as ops  # type: ignore[attr-defined]  # no public module takes a pattern apart
from re import _parser  # type: ignore[attr-defined]  # as above
from typing import Any

from msgspec import Struct

from store.search.folding import indexed

_Operation = tuple[Any, Any]
"""A part of a pattern: what it does, one of ``ops``, and what with."""

_MOST = 16
"""So many sequences of a literal tell it from others as well as all of them do."""
_COMMON = frozenset(" etaoinsrhldcum\n")


class Every(Struct, frozen=True):
    """All of some literals, and of some alternatives one each; of neither: anything."""

    literals: tuple[str, ...] = ()
    either: tuple[tuple[Every, ...], ...] = ()

    @property
    def vacuous(self) -> bool:
        """Whether every text has it, as far as the index can tell."""
        return not self.literals and not self.either


ANYTHING = Every()


def literal(text: str) -> Every:
    """Return what a text must hold that has ``text`` in it."""
    folded = indexed(text)
    return Every((folded,)) if len(folded) >= 3 else ANYTHING


def all_of(needs: Iterable[Every]) -> Every:
    """Return what meets several needs."""
    some = list(needs)
    return Every(
        tuple(dict.fromkeys(text for need in some for text in need.literals)),
        tuple(choice for need in some for choice in need.either),
    )


def one_of(needs: Sequence[Every]) -> Every:
    """Return what meets one of several needs."""
    if any(need.vacuous for need in needs):
        return ANYTHING
    return needs[0] if len(needs) == 1 else Every((), (tuple(needs),))


def expression(need: Every) -> str:
    """Return a need, one that is not vacuous, as a query to the index (SQLite's FTS5)."""
    parts = [_trigrams(text) for text in need.literals]
    parts += ["(" + " OR ".join(expression(one) for one in choice) + ")" for choice in need.either]
    return "(" + " AND ".join(parts) + ")"


def _trigrams(text: str) -> str:
    """Return the sequences of a literal that are asked for, the rarest, as far as one can guess, first."""
    found = list(dict.fromkeys(text[start : start + 3] for start in range(len(text) - 2)))
    if len(found) > _MOST:
        step = len(found) / _MOST
        found = [found[int(number * step)] for number in range(_MOST)]
    found.sort(key=lambda one: sum(character in _COMMON for character in one))
    return " AND ".join('"' + one.replace('"', '""') + '"' for one in found)


def needs_of(pattern: str) -> Every:
    """Return what a text must hold in which a regular expression, one that compiles, is found."""
    return _sequence(_parser.parse(pattern))


def line_by_line(pattern: str) -> bool:
    """Say whether a match within a line may not be one in the whole text: then lines are looked at one by one.

    So it is where a pattern looks around, knows the end of the text from that of a line, or does not give back what it
    has taken.
    """
    return _holds_text(_parser.parse(pattern))


_OF_A_LINE_ALONE = frozenset((ops.ASSERT, ops.ASSERT_NOT, ops.ATOMIC_GROUP, ops.POSSESSIVE_REPEAT))
_ENDS = frozenset((ops.AT_BEGINNING_STRING, ops.AT_END_STRING))


def _holds_text(parsed: Iterable[_Operation]) -> bool:
    for what, argument in parsed:
        if what in _OF_A_LINE_ALONE or (what is ops.AT and argument in _ENDS):
            return True
        if any(_holds_text(part) for part in _parts(argument)):
            return True
    return False


def _parts(argument: object) -> list[Any]:
    """Return the patterns within what an operation is given."""
    if isinstance(argument, _parser.SubPattern):
        return [argument]
    if isinstance(argument, list | tuple):
        return [part for one in argument for part in _parts(one)]
    return []


def _sequence(parsed: Iterable[_Operation]) -> Every:
    needs: list[Every] = []
    run: list[str] = []

    def end() -> None:
        if len(text := "".join(run)) >= 3:
            needs.append(Every((text,)))
        run.clear()

    for what, argument in _flat(parsed):
        if (character := _character((what, argument))) is not None:
            run.append(character)
        elif what is ops.AT:
            # takes no room
            continue
        else:
            end()
            needs.append(_need((what, argument)))
    end()
    return all_of(needs)


def _flat(parsed: Iterable[_Operation]) -> Iterable[_Operation]:
    """Yield operations, those of groups as if there were no groups."""
    for what, argument in parsed:
        if what is ops.SUBPATTERN:
            yield from _flat(argument[3])
        else:
            yield what, argument


def _character(operation: _Operation) -> str | None:
    """Return the one character that an operation stands for with case folded, None if there may be several."""
    what, argument = operation
    if what is ops.LITERAL:
        return indexed(chr(argument))
    if what is ops.IN and len(argument) <= 4 and all(one[0] is ops.LITERAL for one in argument):
        folded = {indexed(chr(one[1])) for one in argument}
        return folded.pop() if len(folded) == 1 else None
    return None


def _need(operation: _Operation) -> Every:
    what, argument = operation
    if what is ops.BRANCH:
        return one_of([_sequence(choice) for choice in argument[1]])
    if what in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT) and argument[0] > 0:
        return _sequence(argument[2])
    if what is ops.ATOMIC_GROUP:
        return _sequence(argument)
    return ANYTHING
