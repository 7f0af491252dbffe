"""Tools of every benchmark: rounds that interleave the contestants, medians, tables, and a way to drop caches."""

import argparse
import contextlib
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

DROP_CACHES = Path("/proc/sys/vm/drop_caches")


T = TypeVar("T")


class Skipped(Exception):
    """A contestant cannot take part; the message says why."""


def interleaved(rounds: int, contestants: Mapping[str, Callable[[int], T]]) -> dict[str, list[T]]:
    """Run every contestant once a round, ``rounds`` rounds; return each one's results, a list in order of rounds.

    Every round starts with another contestant, so that none always runs in another's wake. A contestant that raises
    :class:`Skipped` is left out from then on and named on stderr.
    """
    results: dict[str, list[T]] = {name: [] for name in contestants}
    running = list(contestants)
    for number in range(rounds):
        for name in running[number % len(running) :] + running[: number % len(running)] if running else []:
            try:
                results[name].append(contestants[name](number))
            except Skipped as error:
                note(f"{name}: skipped: {error}")
                running = [other for other in running if other != name]
                results[name].clear()
    return {name: values for name, values in results.items() if values}


def options(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options that every benchmark has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small inputs and few rounds: shows that it works")
    parser.add_argument("--dir", type=Path, default=default_directory(), help="where to work (default: %(default)s)")
    parser.add_argument("--rounds", type=int, help="rounds, if not the benchmark's own number of them")
    return parser


def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Parse the command line; from now on SIGTERM and SIGHUP end the run in order, with every mount taken down."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    arguments = parser.parse_args()
    arguments.dir = arguments.dir.resolve()
    return arguments


def default_directory() -> Path:
    """Return the work directory: under the user's cache, on a disk and not under /tmp, which is often memory."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "convfs-bench"


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which ``share`` (0 to 1) of the values lie."""
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def median(values: Iterable[float]) -> float:
    """Return the median."""
    return statistics.median(values)


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that ``work`` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def note(text: str) -> None:
    """Say how far the run is, on stderr, so that stdout holds only tables."""
    print(text, file=sys.stderr, flush=True)


def can_drop_caches() -> bool:
    """Say whether this process may drop the kernel's caches (root may)."""
    return os.access(DROP_CACHES, os.W_OK)


def drop_caches() -> None:
    """Write out what is dirty and drop the page, dentry and inode caches; :class:`Skipped` where that is forbidden."""
    os.sync()
    try:
        DROP_CACHES.write_text("3\n")
    except OSError as error:
        raise Skipped(f"cannot drop caches ({error}); run as root for cold numbers") from error


def disk_usage(path: Path) -> tuple[int, int]:
    """Return (bytes of allocated blocks, bytes of content) of a file or tree, each hard-linked file counted once."""
    seen: set[tuple[int, int]] = set()
    blocks = size = 0
    for entry in [path, *path.rglob("*")]:
        status = entry.lstat()
        if (status.st_dev, status.st_ino) in seen:
            continue
        seen.add((status.st_dev, status.st_ino))
        blocks += status.st_blocks * 512
        if not entry.is_dir():
            size += status.st_size
    return blocks, size


def resident(pid: int) -> tuple[int, int]:
    """Return (resident, peak resident) memory of a process in bytes."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return int(fields["VmRSS"].split()[0]) * 1024, int(fields["VmHWM"].split()[0]) * 1024


def forget_peak(pid: int) -> None:
    """Have the peak of :func:`resident` begin now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def processor_seconds(pid: int) -> float:
    """Return how many seconds of processor time a process and its children have used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    spent = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError):
            spent += sum(processor_seconds(int(child)) for child in (task / "children").read_text().split())
    return spent


def run(command: Sequence[str | Path], *, cwd: Path | None = None, timeout: float = 3600, check: bool = True) -> str:
    """Run a command to its end and return its stdout; a failure says what the command wrote to stderr."""
    done = subprocess.run(command, cwd=cwd, timeout=timeout, capture_output=True, text=True, errors="replace")
    if check and done.returncode != 0:
        raise RuntimeError(
            f"{' '.join(map(str, command))[:300]}: exit {done.returncode}: {done.stderr.strip()[-2000:]}"
        )
    return done.stdout


def needs(program: str) -> str:
    """Return the path of an installed program (beside this Python, else on PATH), or raise :class:`Skipped`."""
    beside = Path(sys.executable).with_name(program)
    found = str(beside) if beside.exists() else shutil.which(program)
    if found is None:
        raise Skipped(f"{program} is not installed")
    return found


def mountpoints() -> list[Path]:
    """Return all mountpoints, the latest first; from the kernel's table, so that no mount is touched."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [Path(line.split()[4].replace("\\040", " ").replace("\\134", "\\")) for line in reversed(lines)]


def remove(directory: Path) -> None:
    """Remove a tree; what an earlier run left mounted in it is detached first, never walked into."""
    for mountpoint in mountpoints():
        if mountpoint.is_relative_to(directory):
            subprocess.run(["fusermount3", "-uz", str(mountpoint)], check=True, timeout=30)
    shutil.rmtree(directory, ignore_errors=True)


def fresh(directory: Path) -> Path:
    """Return an empty directory at this path, whatever was there."""
    remove(directory)
    directory.mkdir(parents=True)
    return directory


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], legend: str = "") -> None:
    """Print a table as Markdown with aligned columns; the first column names the contestant."""
    cells = [list(columns), *(list(row) for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(columns))]
    lines = [
        "| "
        + " | ".join(cell.ljust(width) if at == 0 else cell.rjust(width) for at, (cell, width) in enumerate(pairs))
        + " |"
        for pairs in (list(zip(row, widths, strict=True)) for row in cells)
    ]
    rule = "|" + "|".join("-" * (width + 2) if at == 0 else "-" * (width + 1) + ":" for at, width in enumerate(widths))
    print(f"\n## {title}\n")
    print("\n".join([lines[0], rule + "|", *lines[1:]]))
    if legend:
        print(f"\n{legend}")
    sys.stdout.flush()


def ratio(value: float, base: float) -> str:
    """Return ``value / base`` as it is printed in tables."""
    return f"{value / base:.2f}x" if base else "-"


def seconds(value: float) -> str:
    """Return a time in a unit that fits it."""
    if value < 0.001:
        return f"{value * 1e6:.0f} us"
    return f"{value * 1e3:.1f} ms" if value < 0.1 else f"{value:.2f} s"


def megabytes(size: float) -> str:
    """Return bytes as megabytes (10**6)."""
    return f"{size / 1e6:.2f} MB" if size < 1e7 else f"{size / 1e6:.1f} MB"


# -- the summary of a run ----------------------------------------------------------------------------------------------

Shown = Callable[[float], str]


class _Compared(NamedTuple):
    """A number that something was asked of."""

    row: str
    measured: float
    asked: float
    shown: Shown
    at_least: bool

    @property
    def reached(self) -> bool:
        return self.measured >= self.asked if self.at_least else self.measured <= self.asked


_compared: list[_Compared] = []
_costs: dict[str, list[tuple[int, float, Shown]]] = {}
_GROWS = 1.15
"""How many times the cost of a megabyte may be that of a smaller input, until something grows faster than it."""


def compared(row: str, measured: float, asked: float, shown: Shown, *, at_least: bool = False) -> None:
    """Put a number into the summary, beside what was asked of it: so much at most, or ``at_least``."""
    _compared.append(_Compared(row, measured, asked, shown, at_least))


def scaled(what: str, size: int, cost: float, shown: Shown) -> None:
    """Put what an input of so many bytes costs into the summary, to be compared with other sizes of it."""
    _costs.setdefault(what, []).append((size, cost, shown))


def print_summary() -> None:
    """Print what was asked and what was measured in this run, and what grows faster than its input."""
    if _compared:
        print_table(
            "What was asked",
            ("", "asked", "measured", "reached"),
            [
                (
                    one.row,
                    f"{'>=' if one.at_least else '<='} {one.shown(one.asked)}",
                    one.shown(one.measured),
                    "yes" if one.reached else "NO",
                )
                for one in _compared
            ],
        )
    rows = []
    for what, costs in _costs.items():
        (small, less, shown), (large, more, _shown) = min(costs), max(costs)
        if small == large:
            continue
        times, input_times = (more / less if less else float("inf")), large / small
        rows.append(
            (
                what,
                f"{shown(less)}, {shown(less / small * 1e6)} a MB",
                f"{shown(more)}, {shown(more / large * 1e6)} a MB",
                f"{input_times:.1f}x",
                f"{times:.1f}x",
                "FASTER" if times > _GROWS * input_times else "no",
            )
        )
    if rows:
        print_table(
            "What grows faster than its input",
            ("", "smallest", "largest", "input", "cost", "faster"),
            rows,
            f"Faster: where a megabyte of the largest costs more than {_GROWS} times that of the smallest.",
        )
