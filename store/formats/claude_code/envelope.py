"""What every line of a session may carry."""

from store.formats.json_view import JsonObject

ENVELOPE = frozenset(
    [
        "agentId",
        "cwd",
        "entrypoint",
        "gitBranch",
        "isMeta",
        "isSidechain",
        "level",
        "logicalParentUuid",
        "message",
        "parentToolUseID",
        "parentUuid",
        "promptId",
        "requestId",
        "sessionId",
        "session_id",
        "slug",
        "subtype",
        "timestamp",
        "toolUseID",
        "type",
        "userType",
        "uuid",
        "version",
    ]
)
"""Fields that any line may carry and that say nothing a reader of the conversation asks for."""


def beside_envelope(line: JsonObject) -> JsonObject:
    """Return the fields of a line that are its own."""
    return {key: value for key, value in line.items() if key not in ENVELOPE}
