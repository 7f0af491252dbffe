from pathlib import Path

from fusefs.mount_table import Mount, mount_at, mounts

TABLE = r"""22 1 254:0 / / rw,relatime - ext4 /dev/root rw
31 22 0:44 / /home/me/my\040mount\134s ro,nosuid shared:7 - fuse.convfs /home/me/a\011store ro,user_id=0
32 22 0:45 / /mnt rw master:1 propagate_from:2 - tmpfs none rw
"""


def test_each_line_is_a_mount(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(TABLE)
    assert list(mounts(table)) == [
        Mount(Path("/"), "ext4", "/dev/root", 0),
        Mount(Path("/home/me/my mount\\s"), "fuse.convfs", "/home/me/a\tstore", 44),
        Mount(Path("/mnt"), "tmpfs", "none", 45),
    ]


def test_this_machine_has_a_root() -> None:
    assert mount_at(Path("/")) is not None
    assert mount_at(Path("/no/such/mountpoint")) is None
