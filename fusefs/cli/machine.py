"""What a mount needs of this machine, checked before anything is tried."""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

DEVICE = Path("/dev/fuse")


class Problem(Struct, frozen=True):
    """Something that keeps a mount from working: what, why, and what to do, in one line."""

    message: str


def problems() -> Iterator[Problem]:
    """Yield what is missing on this machine for a mount to work; nothing where all is well."""
    try:
        is_device = stat.S_ISCHR(DEVICE.stat().st_mode)
    except OSError:
        is_device = False
    if not is_device:
        yield Problem(
            f"{DEVICE} is not there, so nothing can be mounted: load the kernel's fuse module (`modprobe fuse`), or "
            f"give the container the device (`docker run --device {DEVICE} --cap-add SYS_ADMIN`)"
        )
    elif not os.access(DEVICE, os.R_OK | os.W_OK):
        yield Problem(f"{DEVICE} may not be opened by this user: have root run `chmod 666 {DEVICE}`")
    if not shutil.which("fusermount3"):
        yield Problem("fusermount3 is not installed: `sudo apt-get install fuse3` (or your system's fuse3 package)")
