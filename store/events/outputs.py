"""What a conversation keeps beside its records: outputs of its tools, and of its agents.

Each is a blob that the conversation's metadata names by a key of its own, so that adding one costs the same however
many there are, and a fork has them by copying the keys.
"""

from collections.abc import Mapping

from msgspec import Struct


class Outputs(Struct, frozen=True):
    """One of the two sorts: the directory that shows them, what their keys in metadata and their URLs begin with."""

    directory: str
    key: str
    scheme: str
    ending: str
    """How their names end."""


ARTIFACTS = Outputs("artifacts", "artifact/", "artifact", ".log")
AGENTS = Outputs("agents", "agent/", "agent", ".md")

SORTS = (ARTIFACTS, AGENTS)


def is_output(key: str) -> bool:
    """Say whether a key of metadata names an output."""
    return key.startswith((ARTIFACTS.key, AGENTS.key))


def outputs_of(metadata: Mapping[str, object]) -> dict[str, object]:
    """Return what of a conversation's metadata names outputs: what a fork shares with it."""
    return {key: value for key, value in metadata.items() if is_output(key)}
