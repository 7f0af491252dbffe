"""All benchmarks, or some, side by side with their peers in one run: ``python -m tests.bench``.

Prints tables of ratios to stdout (progress goes to stderr). Nothing here asserts a time; what is asserted is that
every contestant gives the right answer. At the end stands what was asked of
which number, and what grows faster than its input. Cold numbers need root, to drop the kernel's caches.

    python -m tests.bench --quick                      two minutes, to see that everything works
    python -m tests.bench                              the whole, quietest machine you have
    python -m tests.bench --only appends reading       some of it
"""

import platform
import traceback

from tests.bench import (
    appends,
    checking,
    collecting,
    crowd,
    databases,
    delivery,
    editing,
    importing,
    links,
    long,
    memory,
    paging,
    reading,
    scale,
    sealing,
    search,
    service,
    space,
    spaces,
    stalls,
    transfer,
)
from tests.bench.harness import note, options, parse, print_summary, remove

BENCHMARKS = {
    "appends": appends.bench,
    "service": service.bench,
    "crowd": crowd.bench,
    "importing": importing.bench,
    "cores": importing.bench_cores,
    "databases": databases.bench,
    "kinds": importing.bench_kinds,
    "transfer": transfer.bench,
    "space": space.bench,
    "spaces": spaces.bench,
    "reading": reading.bench,
    "memory": memory.bench,
    "editing": editing.bench,
    "search": search.bench,
    "scale": scale.bench,
    "sealing": sealing.bench,
    "collecting": collecting.bench,
    "checking": checking.bench,
    "stalls": stalls.bench,
    "paging": paging.bench,
    "links": links.bench,
    "long": long.bench,
    "delivery": delivery.bench,
}


def main() -> int:
    """Run what was asked for; return 1 if a benchmark failed (the others still run)."""
    parser = options(__doc__ or "")
    parser.add_argument("--only", nargs="+", choices=sorted(BENCHMARKS), default=list(BENCHMARKS), metavar="NAME")
    parser.add_argument("--keep", action="store_true", help="leave the work directory as it is at the end")
    arguments = parse(parser)
    print(f"Linux {platform.release()}, Python {platform.python_version()}, {platform.machine()}", flush=True)
    failed = False
    for name in arguments.only:
        try:
            BENCHMARKS[name](arguments.dir, quick=arguments.quick, rounds=arguments.rounds)
        except Exception:
            failed = True
            note(f"{name} FAILED\n{traceback.format_exc()}")
        if not arguments.keep:
            remove(arguments.dir / name)
    print_summary()
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
