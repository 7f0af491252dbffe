"""Answers to a lens, from the events that it showed before; as small as a conversation in a test is."""

from store.events.event import Event


class Earlier:
    """Keeps what events define, and contents by digest."""

    def __init__(self, blobs: dict[bytes, bytes] | None = None, algorithm: str = "sha256") -> None:
        self.blobs = blobs or {}
        self.algorithm = algorithm
        self.records = 0
        self.last = ""
        self.known: dict[str, tuple[int, str]] = {}

    def tool(self, call_id: str) -> str:
        return self.known.get(call_id, (0, ""))[1]

    def parent(self, key: str | None) -> int:
        if key is None:
            return -1 if self.known else 0
        if key not in self.known:
            return -1
        number = self.known[key][0]
        return 0 if number == self.known[self.last][0] else number

    def blob(self, algorithm: str, digest: bytes) -> bytes | None:
        return self.blobs.get(digest) if algorithm == self.algorithm else None

    def add(self, event: Event) -> Event:
        self.records += 1
        for key, tool in event.defines:
            self.known[key] = (self.records, tool)
            self.last = key
        return event
