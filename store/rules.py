"""What holds for one conversation: the settings of the store, and what its own metadata says instead."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from store.errors import UsageError
from store.sections import merged
from store.settings import ConversationSettings, Deduplication, Settings, ToolSettings


class Rules(Struct, frozen=True):
    """The sections of ``convfs.toml`` that a conversation's metadata may have, too, under the same names."""

    conversation: ConversationSettings = ConversationSettings()
    tools: dict[str, ToolSettings] = {}

    @property
    def deduplication(self) -> Deduplication:
        """What is not sent twice."""
        return self.conversation.deduplication

    def hold_for(self, tool: str) -> bool:
        """Say whether what a tool returns may be left out."""
        return self.deduplication.enabled and self.tools.get(tool, ToolSettings()).deduplicate


OVERRIDING = Rules.__struct_fields__
"""The keys of metadata that override settings."""


def rules_of(settings: Settings, metadata: Mapping[str, object]) -> Rules:
    """Return what holds for the conversation with that metadata; what does not fit there is passed over."""
    rules = Rules(settings.conversation, settings.tools)
    for key in OVERRIDING:
        if key in metadata:
            try:
                rules = overridden(rules, {key: metadata[key]})
            except UsageError:
                continue
    return rules


def overridden(rules: Rules, table: Mapping[str, object]) -> Rules:
    """Return ``rules`` with what ``table`` sets. Raises UsageError for what does not fit, and for unknown keys."""
    found, unknown = merged(rules, table, "metadata.json")
    if unknown:
        raise UsageError(unknown[0].removesuffix(" is ignored"))
    return found
