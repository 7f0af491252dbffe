"""Prices of models: the price lists of Anthropic, OpenAI and Google for their interfaces, as of ``AS_OF``.

From https://platform.claude.com/docs/en/about-claude/pricing, https://developers.openai.com/api/docs/pricing and
https://ai.google.dev/gemini-api/docs/pricing, read through what others published of them. Standard tier, text. These
are the prices of tokens there: a subscriber pays the subscription instead. A cost stated in a session takes precedence
over this table, and so does ``[prices]`` of the settings.
"""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from store.events.usage import PROMPT_LENGTHS, Tokens
from store.settings import PriceSettings

AS_OF = "2026-11-20"

_MILLION = 1_000_000
_UP_TO_200K, _UP_TO_272K = PROMPT_LENGTHS.index(200_000) + 1, PROMPT_LENGTHS.index(272_000) + 1
_UP_TO_100K = PROMPT_LENGTHS.index(100_000) + 1
_NEVER = len(PROMPT_LENGTHS) + 1


class Price(Struct, frozen=True):
    """US dollars for a million tokens, from the UTC day ``since`` on ("": always).

    Prompts of ``long`` (:attr:`store.events.usage.Tokens.length`) and more cost ``long_input`` times as much, answers
    to them ``long_output`` times.
    """

    input: float
    output: float
    cache_read: float
    cache_write: float
    cache_write_hour: float
    since: str = ""
    long: int = _NEVER
    long_input: float = 2.0
    long_output: float = 1.5

    def of(self, tokens: Tokens, length: int = 0) -> float:
        """Return the cost in US dollars of answers whose prompts were of ``length``."""
        sent = (
            tokens.input * self.input
            + tokens.cache_read * self.cache_read
            + (tokens.cache_write - tokens.cache_write_hour) * self.cache_write
            + tokens.cache_write_hour * self.cache_write_hour
        )
        said = tokens.output * self.output
        if length >= self.long:
            sent, said = sent * self.long_input, said * self.long_output
        return (sent + said) / _MILLION


def _anthropic(input_: float, output: float, *, read: float = 0.1, since: str = "", long: int = _NEVER) -> Price:
    """Return a price of Anthropic's, whose caches cost the same fractions of the input for nearly every model."""
    return Price(input_, output, round(input_ * read, 6), input_ * 1.25, input_ * 2, since, long)


def _openai(
    input_: float, output: float, read: float, *, since: str = "", write: float = 1.0, long: int = _NEVER
) -> Price:
    return Price(input_, output, read, input_ * write, input_ * write, since, long)


def _google(input_: float, output: float, read: float, *, long: int = _NEVER) -> Price:
    return Price(input_, output, read, input_, input_, "", long)


# The models of each price. Of several prices the later ones come last.
_PRICES: Mapping[str, Sequence[Price]] = {
    name: prices
    for names, *prices in (
        ("claude-3-haiku", _anthropic(0.25, 1.25, read=0.12)),
        ("claude-3-5-haiku", _anthropic(0.8, 4)),
        ("claude-haiku-4-5", _anthropic(1, 5)),
        ("claude-haiku-5-5", Price(0.1, 0.5, 0.01, 0.125, 0.2, long=_UP_TO_100K, long_input=5.0, long_output=5.0)),
        ("claude-3-sonnet claude-3-5-sonnet claude-3-7-sonnet claude-sonnet-4-6", _anthropic(3, 15)),
        ("claude-sonnet-4 claude-sonnet-4-5", _anthropic(3, 15, long=_UP_TO_200K)),
        ("claude-sonnet-5", _anthropic(2, 10)),
        ("claude-sonnet-5-5", _anthropic(2, 10), _anthropic(2, 10, read=0.05, since="2026-10-07")),
        ("claude-3-opus claude-opus-4 claude-opus-4-1", _anthropic(15, 75)),
        ("claude-opus-4-5 claude-opus-4-6 claude-opus-4-7 claude-opus-4-8 claude-opus-5", _anthropic(5, 25)),
        ("claude-opus-5-5", _anthropic(4, 20, read=0.05)),
        ("claude-fable-5 claude-mythos-5", _anthropic(10, 50)),
        ("claude-fable-5-1 claude-mythos-5-1", _anthropic(10, 50, read=0.025)),
        ("gpt-4o", _openai(2.5, 10, 1.25)),
        ("gpt-4o-mini", _openai(0.15, 0.6, 0.075)),
        ("gpt-4-1", _openai(2, 8, 0.5)),
        ("gpt-4-1-mini", _openai(0.4, 1.6, 0.1)),
        ("gpt-4-1-nano", _openai(0.1, 0.4, 0.025)),
        ("o1", _openai(15, 60, 7.5)),
        ("o3", _openai(10, 40, 2.5), _openai(2, 8, 0.5, since="2025-06-10")),
        ("o3-mini", _openai(1.1, 4.4, 0.55)),
        ("o4-mini", _openai(1.1, 4.4, 0.275)),
        ("gpt-5 gpt-5-codex gpt-5-1 gpt-5-1-codex gpt-5-1-codex-max", _openai(1.25, 10, 0.125)),
        ("gpt-5-mini gpt-5-1-codex-mini", _openai(0.25, 2, 0.025)),
        ("gpt-5-nano", _openai(0.05, 0.4, 0.005)),
        ("gpt-5-2 gpt-5-2-codex gpt-5-3-codex", _openai(1.75, 14, 0.175)),
        ("gpt-5-4", _openai(2.5, 15, 0.25, long=_UP_TO_272K)),
        ("gpt-5-4-mini", _openai(0.75, 4.5, 0.075)),
        ("gpt-5-5 gpt-5-6 gpt-5-6-sol", _openai(5, 30, 0.5, long=_UP_TO_272K)),
        (
            "gpt-5-6-terra",
            _openai(2.5, 15, 0.25, long=_UP_TO_272K),
            _openai(2, 12, 0.2, since="2026-07-30", long=_UP_TO_272K),
        ),
        (
            "gpt-5-6-luna",
            _openai(1, 6, 0.1, long=_UP_TO_272K),
            _openai(0.2, 1.2, 0.02, since="2026-07-30", long=_UP_TO_272K),
        ),
        ("gpt-6-astra", _openai(10, 50, 1, write=1.25, long=_UP_TO_272K)),
        ("gpt-6-sol", _openai(2, 10, 0.2, write=1.25, long=_UP_TO_272K)),
        ("gpt-6-luna", _openai(0.1, 0.5, 0.01, write=1.25, long=_UP_TO_272K)),
        ("gemini-1-5-flash", _google(0.075, 0.3, 0.01875)),
        ("gemini-1-5-pro", _google(1.25, 5, 0.3125)),
        ("gemini-2-0-flash", _google(0.1, 0.4, 0.025)),
        ("gemini-2-5-flash", _google(0.3, 2.5, 0.03)),
        ("gemini-2-5-flash-lite", _google(0.1, 0.4, 0.01)),
        ("gemini-2-5-pro", _google(1.25, 10, 0.125, long=_UP_TO_200K)),
        ("gemini-3-flash", _google(0.5, 3, 0.05)),
        ("gemini-3-pro gemini-3-1-pro", _google(2, 12, 0.2, long=_UP_TO_200K)),
    )
    for name in names.split()
}

_provider = re.compile(r".*/|(?:[a-z-]+\.)?anthropic\.")
_date = re.compile(r"[-@](?:20\d{6}|20\d\d-\d\d-\d\d|latest)(?=$|[-:\[@])|-v\d+:\d+$|:\d+$")
_variant = re.compile(r"-preview(?:-\d\d-\d\d(?:-\d{4})?)?$|\[1m\]$|-thinking$")


def plain_name(model: str) -> str:
    """Return the name of a model as the table has it: without a provider, a date and a variant of the same price."""
    name = _provider.sub("", model.lower(), count=1)
    return _variant.sub("", _date.sub("", name)).replace(".", "-")


def undated(model: str) -> str:
    """Return the name of a model without a date."""
    return _date.sub("", model)


class Prices:
    """Prices of models, those that are ``set`` before those of the table."""

    def __init__(self, set_: Mapping[str, PriceSettings]) -> None:
        self._set = {name: _of_settings(price) for name, price in set_.items()}
        self._plain = {plain_name(name): price for name, price in self._set.items()}

    def of(self, model: str, day: str) -> Price | None:
        """Return the price of a model on a UTC day (``2026-03-05``), None if it is unknown."""
        plain = plain_name(model)
        if (own := self._set.get(model) or self._plain.get(plain)) is not None:
            return own
        return next((price for price in reversed(_PRICES.get(plain, ())) if price.since <= day), None)


def _of_settings(price: PriceSettings) -> Price:
    read, write, hour = (
        price.input if cost is None else cost for cost in (price.cache_read, price.cache_write, price.cache_write_hour)
    )
    return Price(price.input, price.output, read, write, hour)
