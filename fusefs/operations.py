"""What pyfuse3 calls: each request of the kernel, answered from the tree and the desk.

No handler waits for anything but work of a thread (``fusefs.tree.waiting``), so requests are answered one after the
other, and others while some wait. Every handler is wrapped: an exception that is not an errno would end the mount.
"""

from fusefs.writing import Writing


class Operations(Writing):
    """All handlers."""
