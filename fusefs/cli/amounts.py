"""Spans of time and sizes as people write them: ``90d``, ``10MB``."""

import re

import click

_AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([a-zA-Z]*)")
_SECOND_MS = 1000
_SPANS = {"h": 3600, "d": 24 * 3600, "w": 7 * 24 * 3600, "y": 365 * 24 * 3600}
_SIZES = {"": 1, "b": 1, "k": 10**3, "kb": 10**3, "kib": 1 << 10, "m": 10**6, "mb": 10**6, "mib": 1 << 20}
_SIZES |= {"g": 10**9, "gb": 10**9, "gib": 1 << 30, "t": 10**12, "tb": 10**12, "tib": 1 << 40}


class Span(click.ParamType[int]):
    """A span of time, in milliseconds: ``12h``, ``90d``, ``2w``, ``1y``; a number alone is days."""

    name = "span"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = _AMOUNT.fullmatch(str(value).strip())
        seconds = _SPANS.get(found[2].lower() or "d") if found else None
        if found is None or seconds is None:
            self.fail(f"{value} is no span of time: write 12h, 90d, 2w or 1y", param, ctx)
        return int(float(found[1]) * seconds * _SECOND_MS)


class Size(click.ParamType[int]):
    """A size in bytes: ``5000``, ``10MB``, ``1GiB``."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = _AMOUNT.fullmatch(str(value).strip())
        factor = _SIZES.get(found[2].lower()) if found else None
        if found is None or factor is None:
            self.fail(f"{value} is no size: write 5000, 10MB or 1GiB", param, ctx)
        return int(float(found[1]) * factor)
