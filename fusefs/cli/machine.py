"""What a mount needs of this machine, checked before anything is tried."""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

DEVICE = Path("/dev/fuse")


def problems() -> Iterator[str]:
    """Yield what keeps a mount from working on this machine, a line each: what, why, and what to do."""
    try:
        is_device = stat.S_ISCHR(DEVICE.stat().st_mode)
    except OSError:
        is_device = False
    if not is_device:
        yield (
            f"{DEVICE} is not there, so nothing can be mounted: load the kernel's fuse module (`modprobe fuse`), or "
            f"give the container the device (`docker run --device {DEVICE} --cap-add SYS_ADMIN`)"
        )
    elif not os.access(DEVICE, os.R_OK | os.W_OK):
        yield f"{DEVICE} may not be opened by this user: have root run `chmod 666 {DEVICE}`"
    if not shutil.which("fusermount3"):
        yield "fusermount3 is not installed: `sudo apt-get install fuse3` (or your system's fuse3 package)"
