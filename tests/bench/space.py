"""Space: what the same sessions take on disk in a closed store, and kept otherwise.

Measured on real session files where there are some (``$CONVFS_SAMPLES``, else ``../shared/samples`` beside the
repository), and on the synthetic corpus. Beside the raw files: gzip a file; gzip a content string, with skeletons
(content-addressed files ``blobs/a1/b2/….blob.gz``, as JP's RFD 066 lays them out; strings below the inline limit
stay in the skeleton, which is kinder to it than the RFD, where all are blobs); git after ``gc --aggressive``; and as a
bound, everything as one zstd stream.

By itself: ``python -m tests.bench.space [--quick] [--dir DIR]``.
"""

import gzip
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import zstandard

from fusefs.text.render import FileRenderer
from store.store import Store
from tests.bench import corpus, importing, mounts
from tests.bench.harness import (
    Skipped,
    disk_usage,
    fresh,
    megabytes,
    note,
    options,
    parse,
    print_table,
    ratio,
    run,
)

INLINE_LIMIT = 1024


def samples_directory() -> Path | None:
    """Return where real sessions lie, or None."""
    named = os.environ.get("CONVFS_SAMPLES")
    directory = Path(named) if named else Path(__file__).resolve().parents[3] / "shared" / "samples"
    return directory if directory.is_dir() else None


def stage_samples(samples: Path, target: Path) -> None:
    """Copy the real sessions of the formats that are imported to ``target``; made-up and damaged ones are left out."""
    for name in ("claude-code", "codex", "jp"):
        if (samples / name).is_dir():
            ignore = shutil.ignore_patterns("derived_*", "fixtures_*")
            shutil.copytree(samples / name, target / name, ignore=ignore, copy_function=shutil.copyfile)


def raw(source: Path, target: Path) -> Path:
    """The files as they are."""
    return source


def gzipped(source: Path, target: Path) -> Path:
    """Every file through gzip, level 6."""
    for path in source.rglob("*"):
        if path.is_file():
            out = target / path.relative_to(source).with_name(path.name + ".gz")
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_bytes(gzip.compress(path.read_bytes(), 6))
    return target


class BlobFiles:
    """Content strings as gzip files named by their SHA-256, two directory levels deep."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def externalize(self, value: object) -> object:
        """Return a JSON value with every string of the inline limit or more stored, and a reference in its place."""
        if isinstance(value, dict):
            return {key: self.externalize(part) for key, part in value.items()}
        if isinstance(value, list):
            return [self.externalize(part) for part in value]
        if isinstance(value, str):
            content = value.encode("utf-8", "surrogatepass")
            return self._store(content) if len(content) >= INLINE_LIMIT else value
        return value

    def _store(self, content: bytes) -> dict[str, object]:
        digest = hashlib.sha256(content).hexdigest()
        path = self.directory / "blobs" / digest[:2] / digest[2:4] / f"{digest[4:]}.blob.gz"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(gzip.compress(content, 6))
        return {"$blob": digest, "size": len(content)}


def blob_files(source: Path, target: Path) -> Path:
    """Skeletons as plain JSON, contents as blob files; a line that is not JSON stays as it is."""
    blobs = BlobFiles(target)
    for path in source.rglob("*"):
        if not path.is_file():
            continue
        skeleton = target / path.relative_to(source)
        skeleton.parent.mkdir(parents=True, exist_ok=True)
        with path.open("rb") as file, skeleton.open("wb") as out:
            parts = file if path.suffix == ".jsonl" else [file.read()]
            for part in parts:
                try:
                    value = blobs.externalize(json.loads(part))
                except ValueError:
                    out.write(part)
                else:
                    out.write(json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode() + b"\n")
    return target


def git(source: Path, target: Path) -> Path:
    """One commit of all files, then packed as tightly as git does; the repository without the files."""
    importing.git(source, target)
    run(["git", f"--git-dir={target / 'git'}", "gc", "--aggressive", "--prune=now", "--quiet"])
    return target / "git"


def one_stream(source: Path, target: Path) -> Path:
    """All files one after another as one zstd stream (level 3, a window of 128 MB)."""
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=27, enable_ldm=True)
    with (
        (target / "all.zst").open("wb") as out,
        zstandard.ZstdCompressor(compression_params=parameters).stream_writer(out, closefd=False) as stream,
    ):
        for path in sorted(source.rglob("*")):
            if path.is_file():
                stream.write(path.read_bytes())
    return target


def convfs(source: Path, target: Path) -> Path:
    """The store, imported and closed."""
    importing.indexed(source, target)
    return target / "store"


def sealed(source: Path, target: Path) -> Path:
    """The store, sealed as well."""
    store = convfs(source, target)
    run([*mounts.convfs_command(store), "seal"])
    return store


def filled(source: Path, target: Path) -> Path:
    """The sealed store with all that a daemon derives while it is idle: the index, the search, the text cache …"""
    store = sealed(source, target)
    with Store.open(store, renderer=FileRenderer()) as opened:
        for entry in opened.catalogue.every():
            opened.library.measure(entry)
        for job in (opened.search, opened.texts, opened.insight, opened.known_files):
            while job.step():
                pass
    return store


def missing(store: Path, source: Path, target: Path) -> list[Path]:
    """Return the files of ``source`` that hold something and do not come back byte for byte from an export."""
    convfs_ = mounts.convfs_command(store)
    listed = json.loads(run([*convfs_, "ls", "--all", "--json"]))
    run([*convfs_, "export", *(str(each["id"]) for each in listed), "-o", target])
    returned = {_digest(path) for path in target.rglob("*") if path.is_file()}
    return [
        path for path in source.rglob("*") if path.is_file() and path.stat().st_size and _digest(path) not in returned
    ]


def _digest(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


WAYS: dict[str, Callable[[Path, Path], Path]] = {
    "raw files": raw,
    "convfs store": convfs,
    "convfs store, sealed": sealed,
    "convfs store, sealed and indexed": filled,
    "gzip a file": gzipped,
    "gzip a blob (RFD 066)": blob_files,
    "git gc --aggressive": git,
    "one zstd stream (a bound)": one_stream,
}


def measure(title: str, source: Path, work: Path) -> None:
    """Keep ``source`` in every way and print what each takes; then what the parts of the store take."""
    sizes: dict[str, tuple[int, int]] = {}
    parts: list[tuple[str, int, int]] = []
    for name, keep in WAYS.items():
        note(f"space: {title}: {name}")
        try:
            kept = keep(source, fresh(work / name.partition(" (")[0].replace(" ", "_")))
        except Skipped as error:
            note(f"{name}: skipped: {error}")
            continue
        sizes[name] = disk_usage(kept)
        if keep is filled:
            parts = [(part.name, *disk_usage(part)) for part in sorted(kept.iterdir())]
            for path in missing(kept, source, fresh(work / "exported")):
                note(f"space: NOT IN THE STORE, {path.stat().st_size} bytes: {path}")
    blocks, content = sizes["raw files"]
    print_table(
        f"Space: {title}",
        ("", "on disk", "to raw", "content", "to raw"),
        [
            (name, megabytes(size[0]), ratio(size[0], blocks), megabytes(size[1]), ratio(size[1], content))
            for name, size in sizes.items()
        ],
        "On disk: allocated blocks, as du counts. Content: the lengths of the files.",
    )
    print_table(
        f"Space: {title}: parts of the store, sealed and indexed",
        ("", "on disk", "to raw", "content", "to raw"),
        [
            (name, megabytes(on_disk), ratio(on_disk, blocks), megabytes(length), ratio(length, content))
            for name, on_disk, length in parts
        ],
    )


def bench(directory: Path, *, quick: bool = False, rounds: int | None = None) -> None:
    """Measure each corpus once (sizes do not vary) and print the tables; the work lies under ``directory``."""
    work = directory / "space"
    samples = samples_directory()
    if samples is not None:
        staged = fresh(work / "samples")
        stage_samples(samples, staged)
        measure("real sessions", staged, work / "real")
    sessions = 20 if quick else 200
    source = directory / f"corpus-{sessions}x100"
    corpus.write_corpus(source, sessions=sessions, events=100)
    measure("synthetic sessions", source / "projects", work / "synthetic")


def main() -> None:
    """Run by itself."""
    arguments = parse(options("Space on disk."))
    bench(arguments.dir, quick=arguments.quick)


if __name__ == "__main__":
    main()
