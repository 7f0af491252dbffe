"""The places of conversations among the others: ``PROJECT/NAME``, and that of subagents in the one that started them.

What listings leave out (see :mod:`store.index.asides`) is in ``PROJECT/.aside/``.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from msgspec import structs

from store.events.conversation import Conversation
from store.filenames import Named, safe_name, shown_name, unique
from store.index.catalogue import Catalogue, ContextEntry

ASIDE = ".aside"
SUBAGENTS = "subagents"

_LONGEST = 230

N = TypeVar("N", bound=Named)
C = TypeVar("C", ContextEntry, Conversation)


def distinct(conversations: Iterable[N]) -> dict[str, N]:
    """Return conversations by names of theirs that differ from each other, oldest id first.

    One is called as it is; a name that another project's conversation has already is followed by ``@`` and the project.
    """
    names: dict[str, N] = {}
    for conversation in sorted(conversations, key=lambda conversation: conversation.id):
        name = shown_name(conversation)
        if name in names:
            name = unique(safe_name(f"{name}@{conversation.project}", limit=_LONGEST), names)
        names[name] = conversation
    return names


class Places:
    """The places of many conversations at one moment: each is looked up only once. ``folder`` names a project's."""

    def __init__(self, catalogue: Catalogue, folder: Callable[[str], str] = str) -> None:
        self._catalogue = catalogue
        self._folder = folder
        self._inside: dict[int, dict[int, str]] = {}
        self._places: dict[int, tuple[int, bool]] = {}

    def look_up(self, context_ids: Sequence[int]) -> None:
        """Look up where some conversations are, at once."""
        self._places |= dict.fromkeys(context_ids, (0, False)) | self._catalogue.places(context_ids)

    def parent(self, context_id: int) -> int:
        """Return the conversation that one is in, 0 for none."""
        return self._place(context_id)[0]

    def _place(self, context_id: int) -> tuple[int, bool]:
        if context_id not in self._places:
            self.look_up((context_id,))
        return self._places[context_id]

    def of(self, conversation: Named) -> tuple[str, ...]:
        """Return the names on the way to a conversation that has one, or is in one that has."""
        parent, beside = self._place(conversation.id)
        if parent:
            if parent not in self._inside:
                named = subagents_in(self._catalogue, parent).items()
                self._inside[parent] = {subagent.id: name for name, subagent in named}
            if (name := self._inside[parent].get(conversation.id)) is not None:
                return (*self.of(self._catalogue.entry(parent)), SUBAGENTS, name)
        aside = (ASIDE,) if beside else ()
        return (self._folder(conversation.project), *aside, shown_name(conversation))


def subagents_in(catalogue: Catalogue, context_id: int) -> dict[str, ContextEntry]:
    """Return the conversations of subagents that are in another, by their names there; also in the trash."""
    return distinct(entry if entry.name else called_in_trash(entry) for entry in catalogue.subagents(context_id))


def called_in_trash(entry: C) -> C:
    """Return a conversation in the trash with the project and name that it had."""
    had = {key: str(entry.metadata.get(key, "")) for key in ("project", "name")}
    return structs.replace(entry, **had)
