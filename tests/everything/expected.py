"""A model of a store, as a program that does not store anything would keep it: conversations as lists of texts.

A :class:`Step` says what is done to the store, :func:`after` what it makes of a conversation, or of a new one. The same
steps are done to a store by ``tests.everything.steps``.
"""

from __future__ import annotations

from msgspec import Struct, structs

DELETED = ""
"""In the place of a text: the event was deleted."""


class Step(Struct, frozen=True):
    """One thing that is done: ``what``, to the conversation ``name``.

    ``number`` is that of an event or a version, ``texts`` are what is written, ``other`` is a further name.
    """

    what: str
    name: str = ""
    number: int = 0
    texts: tuple[str, ...] = ()
    other: str = ""


class Talk(Struct, frozen=True):
    """A conversation: its events, its versions by number, its artifacts, the oldest first, and what is said of it."""

    events: tuple[str, ...] = ()
    versions: dict[int, tuple[str, ...]] = {}
    artifacts: tuple[str, ...] = ()
    title: str = ""
    trashed: bool = False

    @property
    def last(self) -> int:
        """The number of its last version, 0 if there is none."""
        return max(self.versions, default=0)


def after(talk: Talk | None, step: Step) -> Talk | None:
    """Return what a conversation is after a step; None where it is not there any more, or was not and is not.

    Of a step that makes a new one, ``talk`` is what it is made from.
    """
    match step.what:
        case "create":
            return Talk()
        case "delete":
            return None
    assert talk is not None
    match step.what:
        case "append" | "stream":
            return _grown(talk, (*talk.events, *step.texts))
        case "branch":
            return _version(talk, (*talk.events[: step.number], *step.texts))
        case "edit" if talk.events[step.number - 1] == step.texts[0]:
            return talk
        case "edit":
            return _version(talk, _with(talk.events, step.number, step.texts[0]))
        case "remove":
            return _version(talk, _with(talk.events, step.number, DELETED))
        case "restore":
            return _version(talk, talk.versions[step.number])
        case "fork":
            events = talk.events[: step.number or len(talk.events)]
            return Talk(events, {1: events}, talk.artifacts, talk.title)
        case "redacted":
            return _version(talk, talk.events)
        case "title":
            return structs.replace(talk, title=step.texts[0])
        case "trash":
            return structs.replace(talk, trashed=True)
        case "bring back":
            return structs.replace(talk, trashed=False)
        case "artifact":
            return structs.replace(talk, artifacts=(*talk.artifacts, *step.texts))
        case "prune":
            left = {number: events for number, events in talk.versions.items() if number >= step.number}
            return structs.replace(talk, versions=left)
        case _:
            raise AssertionError(step)


def redacted(talk: Talk, secret: str, instead: str) -> Talk:
    """Return a conversation without a secret; what is kept beside it is as long as before."""
    padded = instead.ljust(len(secret), "*")
    return Talk(
        tuple(text.replace(secret, instead) for text in talk.events),
        {number: tuple(text.replace(secret, instead) for text in events) for number, events in talk.versions.items()},
        tuple(text.replace(secret, padded) for text in talk.artifacts),
        talk.title.replace(secret, instead),
        talk.trashed,
    )


def _with(events: tuple[str, ...], number: int, text: str) -> tuple[str, ...]:
    return (*events[: number - 1], text, *events[number:])


def _grown(talk: Talk, events: tuple[str, ...]) -> Talk:
    """Appended text is part of the version before it."""
    return structs.replace(talk, events=events, versions={**talk.versions, talk.last or 1: events})


def _version(talk: Talk, events: tuple[str, ...]) -> Talk:
    return structs.replace(talk, events=events, versions={**talk.versions, talk.last + 1: events})
