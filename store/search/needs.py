"""What a text must hold for a pattern to be found in it: what the index can be asked for.

The index knows of each document which sequences of three characters are in it, with case folded. So a literal asks for
all of its own; a regular expression for those of the literals that every match must contain. What no three characters
follow from cannot be asked for: then every text is a candidate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from re import _constants as ops  # type: ignore[attr-defined]  # no public module takes a pattern apart

from msgspec import Struct

from store.search.folding import indexed
from store.search.patterns import Operation

_MOST = 48
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


def needs_of(operations: Iterable[Operation]) -> Every:
    """Return what a text must hold in which a regular expression, taken apart, is found."""
    return _sequence(operations)


def _sequence(parsed: Iterable[Operation]) -> Every:
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


def _flat(parsed: Iterable[Operation]) -> Iterable[Operation]:
    """Yield operations, those of groups as if there were no groups."""
    for what, argument in parsed:
        if what is ops.SUBPATTERN:
            yield from _flat(argument[3])
        else:
            yield what, argument


def _character(operation: Operation) -> str | None:
    """Return the one character that an operation stands for with case folded, None if there may be several."""
    what, argument = operation
    if what is ops.LITERAL:
        return indexed(chr(argument))
    if what is ops.IN and len(argument) <= 4 and all(one[0] is ops.LITERAL for one in argument):
        folded = {indexed(chr(one[1])) for one in argument}
        return folded.pop() if len(folded) == 1 else None
    return None


def _need(operation: Operation) -> Every:
    what, argument = operation
    if what is ops.BRANCH:
        return one_of([_sequence(choice) for choice in argument[1]])
    if what in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT) and argument[0] > 0:
        return _sequence(argument[2])
    if what is ops.ATOMIC_GROUP:
        return _sequence(argument)
    return ANYTHING
