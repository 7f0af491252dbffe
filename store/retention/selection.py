"""What is to be deleted for good: chosen by a command, or by the rules in a store's settings."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from store.settings import Retention

What = Literal["conversations", "trash", "versions", "artifacts"]
DAY_MS = 24 * 3600 * 1000


class Selection(Struct, frozen=True, forbid_unknown_fields=True):
    """Which of one sort are to go: all that meet every condition.

    ``older_ms``: a conversation that has not changed for so long, or has been in the trash for so long, a version that
    has not been the present one for so long, an output of a tool or of an agent that was not written to for so long
    (None: of any age). ``label``, ``project``: of conversations that have it ("": any). ``larger_bytes``: of
    conversations whose transcript and outputs are larger together (None: of any size). ``contexts``: of these alone
    (none: of all).
    """

    what: What
    older_ms: int | None = None
    label: str = ""
    project: str = ""
    larger_bytes: int | None = None
    contexts: tuple[int, ...] = ()


def rules(settings: Retention) -> list[Selection]:
    """Return what the rules of a store choose; nothing where there are none."""
    days: tuple[tuple[What, float | None], ...] = (
        ("trash", settings.trash_days),
        ("conversations", settings.conversations_days),
        ("versions", settings.versions_days),
        ("artifacts", settings.artifacts_days),
    )
    return [Selection(what, older_ms=int(least * DAY_MS)) for what, least in days if least is not None]
