"""Titles made from what people wrote."""

_LONGEST = 120


def first_line(text: str) -> str:
    """Return the first line of ``text`` that says something, without Markdown's marks; at most 120 characters.

    A line that ends in a colon says too little: the next one goes with it.
    """
    said = ""
    for line in text.splitlines():
        said = f"{said} {' '.join(line.strip().strip('#*`>=- ').split())}".strip()
        if said and not said.endswith(":"):
            break
    return said if len(said) <= _LONGEST else said[: _LONGEST - 1].rstrip() + "…"
