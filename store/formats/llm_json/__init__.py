"""llm's logs as ``llm logs --json`` prints them."""

from store.formats.llm_json.session import LlmJson

__all__ = ["LlmJson"]
