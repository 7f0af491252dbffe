"""The needs of a pattern: what a text must hold for a match, and so what to ask the index for.

The index knows of each text which words are in it, with case folded (``store.search.words``). So a literal asks for the
words and pieces of words that it is made of; a regular expression for those of the literals that every match must
contain. If a pattern has none, as one of punctuation, the index cannot be asked: then every text is a candidate.
"""

from collections.abc import Iterable, Iterator, Sequence
from re import _constants as ops  # type: ignore[attr-defined]  # no public module takes a pattern apart

from msgspec import Struct

from store.search.folding import fold
from store.search.patterns import Operation
from store.search.words import pieces_of

_TELLING = 3
"""A literal of so many characters tells lines from others, if not texts."""


class Every(Struct, frozen=True):
    """All of some literals, and of some alternatives one each, none of them vacuous; of neither: anything."""

    literals: tuple[str, ...] = ()
    either: tuple[tuple["Every", ...], ...] = ()

    @property
    def vacuous(self) -> bool:
        """True if every text meets it, as far as the index can tell."""
        return not self.either and not any(map(pieces_of, self.literals))


ANYTHING = Every()


def literal(text: str) -> Every:
    """Return the need of a literal."""
    folded = fold(text)
    return Every((folded,)) if _tells(folded) else ANYTHING


def _tells(folded: str) -> bool:
    return len(folded) >= _TELLING or bool(pieces_of(folded))


def all_of(needs: Iterable[Every]) -> Every:
    """Return the need that combines several needs."""
    some = list(needs)
    return Every(
        tuple(dict.fromkeys(text for need in some for text in need.literals)),
        tuple(choice for need in some for choice in need.either),
    )


def one_of(needs: Sequence[Every]) -> Every:
    """Return the need to meet one of several needs."""
    if any(need.vacuous for need in needs):
        return ANYTHING
    return needs[0] if len(needs) == 1 else Every((), (tuple(needs),))


def lines_with(need: Every, folded: str) -> set[int] | None:
    """Return the lines of a folded text that may have a match within them, counted from 0; None: any may.

    More than have one: of each need one literal is looked for, the longest.
    """
    if need.literals:
        longest = max(need.literals, key=len)
        return None if "\n" in longest else set(_lines_with(longest, folded))
    if not need.either:
        return None
    found: set[int] = set()
    for one in need.either[0]:
        lines = lines_with(one, folded)
        if lines is None:
            return None
        found |= lines
    return found


def _lines_with(text: str, folded: str) -> Iterator[int]:
    line = start = 0
    while (at := folded.find(text, start)) >= 0:
        line += folded.count("\n", start, at)
        yield line
        start = folded.find("\n", at) + 1
        if not start:
            return
        line += 1


def beginning_of(parsed: Iterable[Operation]) -> str:
    """Return the literal, folded, that every match of a regular expression begins with, "" if there is none."""
    characters: list[str] = []
    for operation in _flat(parsed):
        if operation[0] is ops.AT:
            continue
        if (character := _character(operation)) is None:
            break
        characters.append(character)
    return "".join(characters)


def needs_of(parsed: Iterable[Operation]) -> Every:
    """Return the need of a regular expression, taken apart."""
    needs: list[Every] = []
    run: list[str] = []

    def end() -> None:
        if _tells(text := "".join(run)):
            needs.append(Every((text,)))
        run.clear()

    for what, argument in _flat(parsed):
        if (character := _character((what, argument))) is not None:
            run.append(character)
        elif what is ops.AT:
            # it matches no characters
            continue
        else:
            end()
            needs.append(_need((what, argument)))
    end()
    return all_of(needs)


def _flat(parsed: Iterable[Operation]) -> Iterable[Operation]:
    for what, argument in parsed:
        if what is ops.SUBPATTERN:
            yield from _flat(argument[3])
        else:
            yield what, argument


def _character(operation: Operation) -> str | None:
    """Return the one character that an operation stands for with case folded, None if there may be several."""
    what, argument = operation
    if what is ops.LITERAL:
        return fold(chr(argument))
    if what is ops.IN and len(argument) <= 4 and all(one[0] is ops.LITERAL for one in argument):
        folded = {fold(chr(one[1])) for one in argument}
        return folded.pop() if len(folded) == 1 else None
    return None


def _need(operation: Operation) -> Every:
    what, argument = operation
    if what is ops.BRANCH:
        return one_of([needs_of(choice) for choice in argument[1]])
    if what in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT) and argument[0] > 0:
        return needs_of(argument[2])
    if what is ops.ATOMIC_GROUP:
        return needs_of(argument)
    return ANYTHING
