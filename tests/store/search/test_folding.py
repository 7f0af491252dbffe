"""Text without regard to case: whatever anybody takes for equal is equal."""

import re
import sys

from hypothesis import given
from hypothesis import strategies as st

from store.search.folding import fold


def test_whatever_regular_expressions_take_for_equal_is_equal() -> None:
    every = (chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000)
    # what has no case is equal to itself alone
    cased = [one for one in every if not one.lower() == one.upper() == one.casefold() == one]
    whole = "".join(cased)
    for character in cased:
        for found in re.findall(re.escape(character), whole, re.IGNORECASE):
            assert fold(found) == fold(character)


@given(st.text(), st.text(), st.text())
def test_a_part_of_a_text_folds_to_a_part(before: str, part: str, after: str) -> None:
    assert fold(part) in fold(before + part + after)
    assert fold(part) in fold(before + part.upper() + after) or fold(part.upper()) != fold(part)


@given(st.text(alphabet="aB\n\0\u0130\u0131\u00df\u017f\u212a", max_size=30))
def test_lines_stay(text: str) -> None:
    assert fold(text).count("\n") == text.count("\n")
