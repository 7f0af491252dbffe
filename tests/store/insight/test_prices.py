import pytest

from store.events.usage import Tokens
from store.insight.prices import Prices, plain_name
from store.settings import PriceSettings

MILLION = 1_000_000


@pytest.mark.parametrize(
    ("model", "plain"),
    [
        ("claude-opus-4-5-20251101", "claude-opus-4-5"),
        ("anthropic/claude-opus-4.5", "claude-opus-4-5"),
        ("openrouter/anthropic/claude-sonnet-4.5:thinking", "claude-sonnet-4-5:thinking"),
        ("us.anthropic.claude-sonnet-4-20250514-v1:0", "claude-sonnet-4"),
        ("claude-sonnet-4@20250514", "claude-sonnet-4"),
        ("claude-sonnet-4-5-20250929[1m]", "claude-sonnet-4-5"),
        ("claude-3-5-haiku-latest", "claude-3-5-haiku"),
        ("gpt-5-2025-08-07", "gpt-5"),
        ("gpt-5.1-codex-max", "gpt-5-1-codex-max"),
        ("gemini-2.5-pro-preview-06-05", "gemini-2-5-pro"),
        ("gemini-3-pro-preview", "gemini-3-pro"),
    ],
)
def test_names_of_the_same_model(model: str, plain: str) -> None:
    assert plain_name(model) == plain


def test_what_is_not_in_the_table_has_no_price() -> None:
    prices = Prices({})
    assert prices.of("claude-opus-4-5-20251101", "2026-01-01") is not None
    for model in ("", "claude-opus-99", "gpt-5.9", "my-own-model", "<synthetic>"):
        assert prices.of(model, "2026-01-01") is None


def test_an_answer_costs_what_each_kind_of_its_tokens_does() -> None:
    price = Prices({}).of("claude-opus-4-5", "2026-01-01")
    assert price is not None
    assert price.of(Tokens(input=MILLION)) == pytest.approx(5)
    assert price.of(Tokens(output=MILLION, reasoning=MILLION)) == pytest.approx(25)
    assert price.of(Tokens(cache_read=MILLION)) == pytest.approx(0.5)
    assert price.of(Tokens(cache_write=MILLION)) == pytest.approx(6.25)
    assert price.of(Tokens(cache_write=MILLION, cache_write_hour=MILLION)) == pytest.approx(10)


def test_a_long_prompt_is_dearer_with_some_models() -> None:
    prices = Prices({})
    usual, long = Tokens(200_000, 1000), Tokens(150_000, 1000, 50_001)
    assert (usual.length, long.length) == (1, 2)
    dear, flat = prices.of("gemini-2.5-pro", ""), prices.of("claude-opus-4-6", "")
    assert dear is not None
    assert flat is not None
    assert dear.of(long, long.length) == pytest.approx((150_000 * 2.5 + 50_001 * 0.25 + 1000 * 15) / MILLION)
    assert dear.of(usual, usual.length) == pytest.approx((200_000 * 1.25 + 1000 * 10) / MILLION)
    assert flat.of(long, long.length) == flat.of(long)


def test_a_price_changes_on_its_day() -> None:
    before, since = (Prices({}).of("gpt-5.6-luna", day) for day in ("2026-07-29", "2026-07-30"))
    assert before is not None
    assert since is not None
    assert (before.input, since.input) == (1, 0.2)


def test_settings_come_before_the_table() -> None:
    own = {"claude-opus-4.5": PriceSettings(1, 2, cache_read=0.5), "house-model": PriceSettings(3, 4)}
    prices = Prices(own)
    opus, house = prices.of("claude-opus-4-5-20251101", ""), prices.of("house-model", "2026-01-01")
    assert opus is not None
    assert house is not None
    assert (opus.input, opus.output, opus.cache_read, opus.cache_write) == (1, 2, 0.5, 1)
    assert house.cache_write_hour == 3
