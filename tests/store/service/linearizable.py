"""Whether what several did at once to a context could have been done by one after the other.

What each was told, and when it asked and was told, is a history. It is linearizable if its calls can be put in an
order in which each is told what a context, done to one call at a time, tells, and in which no call comes before one
that was over when it was asked for (Wing and Gong, Testing and verifying concurrent objects, 1993; with what has been
tried remembered, as Lowe does).
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

Content = bytes | None
"""A payload; None: deleted."""


class State(Struct, frozen=True):
    """A context: its last turn, the patched turns with what they now are, and a value of its metadata."""

    head: int = 0
    patches: tuple[tuple[int, Content], ...] = ()
    note: int = 0


class Call(Struct, frozen=True):
    """One call on one context, between two times.

    | kind | given | told |
    |---|---|---|
    | append | head that is expected (None: any), parent (0: the head) | the turn (0: another head), its parent |
    | patch | head that is expected (None: any), turn, payload | the head (0: another, or the turn is not in it) |
    | note | value | |
    | head | | turn, depth |
    | turns | how many | turns |
    | range | from which depth, how many | turns |
    | latest, fork | how many | turns with their payloads |
    | noted | | value |
    """

    kind: str
    began: int
    ended: int
    given: tuple[object, ...] = ()
    told: tuple[object, ...] = ()


class Turns:
    """The turns that there are, with their parents and payloads: these never change."""

    def __init__(self, turns: Mapping[int, tuple[int, bytes]]) -> None:
        self._turns = turns

    def branch(self, head: int) -> list[int]:
        found = []
        while head:
            found.append(head)
            head = self._turns[head][0]
        return found[::-1]

    def latest(self, state: State, count: int) -> tuple[tuple[int, Content], ...]:
        patches = dict(state.patches)
        return tuple((turn, patches.get(turn, self._turns[turn][1])) for turn in self.branch(state.head)[-count:])

    def after(self, state: State, call: Call) -> State | None:
        """Return what a context is after a call; None if it would have told something else."""
        told = call.told
        match call.kind, call.given:
            case "append", (expected, parent):
                turn, follows = told
                if not turn:
                    return state if expected not in (None, state.head) else None
                if expected not in (None, state.head) or follows != (parent or state.head):
                    return None
                return State(turn, state.patches, state.note)
            case "patch", (expected, turn, payload):
                (head,) = told
                if not head:
                    refused = expected not in (None, state.head) or turn not in self.branch(state.head)
                    return state if refused else None
                if head != state.head or expected not in (None, head) or turn not in self.branch(head):
                    return None
                return State(head, tuple(sorted({**dict(state.patches), turn: payload}.items())), state.note)
            case "note", (value,):
                return State(state.head, state.patches, value)
            case "head", ():
                answer = (state.head, max(len(self.branch(state.head)) - 1, 0))
            case "turns", (count,):
                answer = tuple(self.branch(state.head)[-count:])
            case "range", (start, count):
                answer = tuple(self.branch(state.head)[start : start + count])
            case (("latest" | "fork"), (count,)):
                answer = self.latest(state, count)
            case "noted", ():
                answer = (state.note,)
            case _:
                raise ValueError(call)
        return state if answer == told else None


def linearizable(calls: Sequence[Call], turns: Turns, state: State) -> bool:
    """Say whether a history of one context, which was ``state`` at first, is linearizable."""
    calls = sorted(calls, key=lambda call: call.began)
    tried: set[tuple[frozenset[int], State]] = set()
    ways = [(frozenset(range(len(calls))), state)]
    while ways:
        left, state = ways.pop()
        if not left:
            return True
        if (left, state) in tried:
            continue
        tried.add((left, state))
        over = min(calls[at].ended for at in left)
        following: list[tuple[frozenset[int], State]] = []
        for at in left:
            after = turns.after(state, calls[at]) if calls[at].began <= over else None
            if after == state:
                # it changes nothing, so nothing is lost by having it done now
                following = [(left - {at}, state)]
                break
            if after is not None:
                following.append((left - {at}, after))
        ways += following
    return False
