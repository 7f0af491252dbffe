"""Case folding: characters which any way of ignoring case takes for equal are equal.

Unicode's full case folding goes character by character, without regard to their neighbours, so a part of a text folds
to a part of the folded text. Beside it, the Turkic i without a dot and İ with one count as i: so do ``grep -i`` and
``re.IGNORECASE``.
"""

_DOTTED, _DOTLESS = "\u0130", "\u0131"
_TURKIC = str.maketrans({_DOTTED: "i", _DOTLESS: "i"})


def fold(text: str) -> str:
    """Return ``text`` with case folded; it has the lines of ``text``, but may be longer."""
    if text.isascii():
        return text.lower()
    if _DOTTED in text or _DOTLESS in text:
        text = text.translate(_TURKIC)
    return text.casefold()
