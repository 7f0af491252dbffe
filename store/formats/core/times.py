"""Timestamps of foreign tools as Unix milliseconds."""

from datetime import UTC, datetime, timedelta

SPANS = {"h": 3600, "d": 24 * 3600, "w": 7 * 24 * 3600, "y": 365 * 24 * 3600}
"""The seconds of the units in which people give spans of time: ``12h``, ``90d``, ``2w``, ``1y``."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400_000
"""The milliseconds of a day."""
FIRST_MILLISECONDS = 100_000_000_000
"""A number from here up is a time in milliseconds: in seconds it would be after the year 5000."""
_LAST_SECOND = 253_402_300_800
"""The beginning of the year 10000, which no calendar here knows."""


def milliseconds(stamp: object) -> int:
    """Return an ISO 8601 timestamp in Unix milliseconds, 0 if it is none; without a zone it is UTC, as JP's are."""
    if not isinstance(stamp, str):
        return 0
    try:
        moment = datetime.fromisoformat(stamp)
        since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    except (ValueError, OverflowError):
        return 0
    # each view of a record reads a time, and to divide by a timedelta takes longer than this
    return max(since.days * _DAY + since.seconds * 1000 + since.microseconds // 1000, 0)


def in_iso(time_ms: int) -> str:
    """Return Unix milliseconds in ISO 8601, UTC: ``2026-03-05T19:31:54.356Z``."""
    return (_EPOCH + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def iso(ms: int) -> str:
    """Return a time in Unix milliseconds as ISO 8601 in UTC, to the millisecond; "" for 0, and beyond the calendar."""
    try:
        return in_iso(ms) if ms else ""
    except OverflowError:
        return ""


def local(ms: int, form: str = "%Y-%m-%d %H:%M") -> str:
    """Return a time in Unix milliseconds as the clock here shows it; "" for 0, and beyond the calendar."""
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).astimezone().strftime(form) if ms else ""
    except (OSError, OverflowError, ValueError):
        return ""


def time_of(stamp: object) -> int:
    """Return a time in Unix milliseconds: told in ISO 8601, in seconds or in milliseconds; 0 if it is none."""
    if isinstance(stamp, (int, float)) and not isinstance(stamp, bool):
        if stamp < FIRST_MILLISECONDS:
            return of_seconds(stamp)
        return int(stamp) if of_seconds(stamp // 1000) else 0
    return milliseconds(stamp)


def of_seconds(stamp: object) -> int:
    """Return a time in Unix seconds, fractions too, in Unix milliseconds; 0 if it is none."""
    if isinstance(stamp, bool) or not isinstance(stamp, (int, float)) or not 0 < stamp < _LAST_SECOND:
        return 0
    return round(stamp * 1000)
