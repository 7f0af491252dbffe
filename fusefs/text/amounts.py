"""Amounts as people say them: sizes, counts, money."""


def size_text(size: float) -> str:
    """Return a number of bytes as people say it: ``831 B``, ``1.2 MB``."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def count_text(count: float) -> str:
    """Return a large number as people say it: ``831``, ``1.2K``, ``34M``."""
    if count < 1000:
        return f"{count:.0f}"
    for unit in ("K", "M", "B"):
        count /= 1000
        if count < 999.5:
            return f"{count:.1f}{unit}" if count < 9.95 else f"{count:.0f}{unit}"
    return f"{count:.0f}B"


def dollars_text(dollars: float) -> str:
    """Return an amount of US dollars: ``$1,234.56``; less than a cent as that."""
    return "<$0.01" if 0 < dollars < 0.005 else f"${dollars:,.2f}"


def share_text(part: float, whole: float) -> str:
    """Return the share of a part in a whole: ``23 %``."""
    return f"{100 * part / whole:.0f} %" if whole else "0 %"


def counted(count: int, what: str) -> str:
    """Return a count with its noun: ``1 event``, ``1,234 events``."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"
