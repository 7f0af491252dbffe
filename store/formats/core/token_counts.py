"""The token counts of an answer, in the spellings of providers' interfaces.

Anthropic's Messages count tokens read from a cache and written to it beside the input; OpenAI's Chat Completions and
Responses, and Google's ``generateContent``, within it. The last also counts thoughts beside the output.
"""

from store.events.usage import MOST, MOST_DOLLARS, Tokens
from store.formats.core.json_view import JsonObject, as_object


def count(holder: JsonObject, *keys: str) -> int:
    """Return the first of these members that is a whole number from 1 up; 0 where none is."""
    for key in keys:
        value = holder.get(key)
        if type(value) is int and 0 < value < MOST:
            return value
    return 0


def amount(value: object, most: int = MOST) -> float | None:
    """Return a number that is told of; None where it is none from 0 to ``most``."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value <= most else None


def dollars(value: object) -> float | None:
    """Return a cost that is told of, None where it is none that can be."""
    return amount(value, MOST_DOLLARS)


def counted(usage: JsonObject) -> Tokens:
    """Return the token counts in an answer's ``usage`` (or ``usageMetadata``), in any of these spellings."""
    if "promptTokenCount" in usage or "candidatesTokenCount" in usage:
        return counted_by_google(usage)
    prompt = count(usage, "prompt_tokens")
    details = as_object(usage.get("prompt_tokens_details")) or as_object(usage.get("input_tokens_details"))
    read = count(usage, "cache_read_input_tokens", "cached_input_tokens", "cache_read_tokens")
    read = read or count(details, "cached_tokens")
    write = count(usage, "cache_creation_input_tokens", "cache_write_input_tokens", "cache_write_tokens")
    said = as_object(usage.get("completion_tokens_details")) or as_object(usage.get("output_tokens_details"))
    reasoning = count(said, "reasoning_tokens") or count(usage, "reasoning_output_tokens", "reasoning_tokens")
    output = count(usage, "output_tokens", "completion_tokens")
    sent = count(usage, "input_tokens")
    within = prompt or details or "cached_input_tokens" in usage or "cache_write_input_tokens" in usage
    if within:
        sent = max(0, (prompt or sent) - read - write)
    hour = count(as_object(usage.get("cache_creation")), "ephemeral_1h_input_tokens")
    return Tokens(sent, output, read, write, min(hour, write), min(reasoning, output))


def counted_by_google(usage: JsonObject) -> Tokens:
    """Return the token counts in Google's spelling, or in that of its own program."""
    read, thoughts = count(usage, "cachedContentTokenCount", "cached"), count(usage, "thoughtsTokenCount", "thoughts")
    sent = count(usage, "promptTokenCount", "input") + count(usage, "toolUsePromptTokenCount", "tool")
    output = count(usage, "candidatesTokenCount", "output") + thoughts
    return Tokens(max(0, sent - read), output, read, reasoning=thoughts)
