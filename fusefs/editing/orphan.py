"""What an inode number shows whose file has gone, or is known under another one by now."""

from fusefs.tree.node import FILE, Attributes, Content, File
from store.ids import now_ms


class OrphanFile(File):
    """A file without a name. It keeps its bytes for whoever has it open."""

    __slots__ = ("content", "size", "time_ms")

    def __init__(self, ino: int, content: Content, size: int) -> None:
        super().__init__(ino)
        self.content = content
        self.size = size
        self.time_ms = now_ms()

    def attributes(self) -> Attributes:
        return Attributes(self.ino, FILE, self.size, self.time_ms, links=0)

    def open(self) -> Content:
        return self.content
