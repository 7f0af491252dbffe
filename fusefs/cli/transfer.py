"""``convfs push``, ``pull`` and ``sync``: conversations between this store and another one."""

from __future__ import annotations

import os
import shlex
import signal
import stat
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import unquote, urlsplit

import click

from fusefs.cli.output import echo, name_column, progress, write_table
from fusefs.text.amounts import size_text
from store import visible

if TYPE_CHECKING:
    from fusefs.cli.backend import Backend
    from store.service.exchange import Chosen, Place, Transfer
    from store.transfer.parcel import Offer, Outcome, Position

Command = TypeVar("Command", bound=Callable[..., Any])

_SSH = "ssh://"
_SHOWN = 20
_LOOK_SECONDS = 5.0
_WORDS = {
    "new": "new",
    "grown": "grown",
    "described": "described anew",
    "diverged": "diverged",
    "same": "the same",
    "gone": "deleted there for good",
    "refused": "refused",
}


def _options(command: Command) -> Command:
    """Add what the three commands have in common."""
    for option in reversed(
        (
            click.argument("arguments", metavar="[CONV]... [DIR|SOCKET|ssh://HOST/DIR]", nargs=-1),
            click.option("--project", "projects", multiple=True, metavar="P", help="All conversations of a project."),
            click.option("--label", "labels", multiple=True, metavar="L", help="All conversations with a label."),
            click.option("--versions", is_flag=True, help="Earlier versions come along, too."),
            click.option("--dry-run", is_flag=True, help="Show what would go, and send nothing."),
            click.option("--watch", is_flag=True, help="Go on with what is new, until SIGTERM or Ctrl-C."),
        )
    ):
        command = option(command)
    return command


_yes = click.option("--yes", is_flag=True, help="Do not ask before the first push to a store.")
_redact = click.option(
    "--redact", is_flag=True, help="Leave out what looks like a secret, in this push and all later ones to that store."
)


@click.command(short_help="Send conversations to another store.")
@_options
@_yes
@_redact
@click.pass_obj
def push(
    store: Path | None,
    arguments: tuple[str, ...],
    projects: tuple[str, ...],
    labels: tuple[str, ...],
    versions: bool,
    dry_run: bool,
    watch: bool,
    yes: bool,
    redact: bool,
) -> None:
    """Send conversations to another store: a directory, the socket of a daemon, or a directory on another machine.

    Nothing leaves that is not named, by CONV, --project or --label, or by a [[share]] rule in convfs.toml. The first
    push to a store lists what goes, with what in it looks like a secret, and asks. What is there already is not sent
    again. What both stores have changed stands beside the other there, as a fork with the label `diverged`.
    """
    sent = partial(_push, store, versions=versions, dry_run=dry_run, yes=yes, redact=redact)
    asked = _asked(store, arguments, projects, labels, leaving=True)
    _between(store, asked, (sent,), leaving=True, dry_run=dry_run, watch=watch)


@click.command(short_help="Fetch conversations from another store.")
@_options
@click.pass_obj
def pull(
    store: Path | None,
    arguments: tuple[str, ...],
    projects: tuple[str, ...],
    labels: tuple[str, ...],
    versions: bool,
    dry_run: bool,
    watch: bool,
) -> None:
    """Fetch conversations from another store; without CONV, --project or --label, all of them.

    A conversation that has gone on there goes on here. What both have changed stays as it is here, and theirs stands
    beside it, as a fork with the label `diverged`. What was redacted here does not come back.
    """
    fetched = partial(_pull, store, versions=versions, dry_run=dry_run, alone=True)
    asked = _asked(store, arguments, projects, labels, leaving=False)
    _between(store, asked, (fetched,), leaving=False, dry_run=dry_run, watch=watch)


@click.command(short_help="Pull from another store, then push to it.")
@_options
@_yes
@_redact
@click.pass_obj
def sync(
    store: Path | None,
    arguments: tuple[str, ...],
    projects: tuple[str, ...],
    labels: tuple[str, ...],
    versions: bool,
    dry_run: bool,
    watch: bool,
    yes: bool,
    redact: bool,
) -> None:
    """Pull from another store, then push to it, the same conversations: those that are named, or that a [[share]] rule
    names.
    """
    fetched = partial(_pull, store, versions=versions, dry_run=dry_run, alone=False)
    sent = partial(_push, store, versions=versions, dry_run=dry_run, yes=yes, redact=redact)
    asked = _asked(store, arguments, projects, labels, leaving=True)
    _between(store, asked, (fetched, sent), leaving=True, dry_run=dry_run, watch=watch)


def _between(
    store: Path | None,
    asked: Iterable[tuple[str, _Wanted]],
    deeds: Sequence[Callable[[Backend, Backend, str, _Wanted, _Look], None]],
    *,
    leaving: bool,
    dry_run: bool,
    watch: bool,
) -> None:
    """Do some deeds between this store and each of the others, once or, with ``watch``, again and again."""
    asked = list(asked)
    for look in _looks(watch=watch and not dry_run):
        for place, wanted in asked:
            with look, _both(store, place, leaving=leaving, dry_run=dry_run) as (here, there):
                for deed in deeds:
                    deed(here, there, place, wanted, look)


class _Look:
    """A look at what is new; a ``later`` one tells of nothing else, and what is wrong with it, once, ends nothing."""

    def __init__(self) -> None:
        self.later = False
        self._told = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        from store.errors import ConvfsError

        if error is None:
            self._told = ""
        if not self.later or not isinstance(error, ConvfsError | OSError | click.exceptions.Exit):
            return False
        if not isinstance(error, click.exceptions.Exit) and str(error) != self._told:
            self._told = str(error)
            echo(f"convfs: {error}; looking again", err=True)
        return True


def _looks(*, watch: bool) -> Iterator[_Look]:
    """Yield one look, or with ``watch`` look after look until SIGTERM or Ctrl-C."""
    look = _Look()
    if not watch:
        yield look
        return
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: ended.set())
    while not ended.is_set():
        yield look
        if not look.later:
            echo("Watching both stores; Ctrl-C ends.", err=True)
        look.later = True
        ended.wait(_LOOK_SECONDS)


class _Wanted:
    """The conversations asked for: names of conversations, projects and labels."""

    def __init__(
        self, names: Sequence[str], projects: Sequence[str], labels: Sequence[str], *, typed: bool = True
    ) -> None:
        """``typed``: somebody has typed them just now, so there must be something of each."""
        self.names = tuple(names)
        self.projects = tuple(projects)
        self.labels = tuple(labels)
        named = [*(("project", one) for one in projects), *(("label", one) for one in labels)]
        self._unseen = set(named if typed else ())

    def see(self, offers: Sequence[Offer], known: Position | None) -> bool:
        """Note of what there is something; return whether there is of all. ``known``: where the last transfer ended."""
        if known is not None:
            # what has not changed since then is not offered
            self._unseen.clear()
        for offer in offers if self._unseen else ():
            labels = offer.told.get("labels")
            self._unseen.discard(("project", offer.project))
            self._unseen.difference_update(("label", one) for one in (labels if isinstance(labels, list) else ()))
        return not self._unseen

    def check(self) -> None:
        """Raise NotFound if nothing was seen of something."""
        from store.errors import NotFound

        for kind, name in sorted(self._unseen):
            having = "of the project" if kind == "project" else "with the label"
            raise NotFound(f"there is no conversation {having} {name}")

    def chosen(self, backend: Backend) -> Chosen:
        """Return which conversations these are in one store."""
        from store.service.exchange import Chosen
        from store.service.operations import find_conversation

        contexts = tuple(backend.call(find_conversation(name)).id for name in self.names)
        return Chosen(contexts, self.projects, self.labels)

    def some(self, backend: Backend) -> Chosen | None:
        """Return those that there are in a store, None for none: elsewhere they may not be there yet."""
        from store.errors import NotFound
        from store.service.exchange import Chosen
        from store.service.operations import find_conversation

        contexts = []
        for name in self.names:
            try:
                contexts.append(backend.call(find_conversation(name)).id)
            except NotFound:
                continue
        if self.names and not (contexts or self.projects or self.labels):
            return None
        return Chosen(tuple(contexts), self.projects, self.labels)


def _asked(
    store: Path | None, arguments: Sequence[str], projects: Sequence[str], labels: Sequence[str], *, leaving: bool
) -> Iterator[tuple[str, _Wanted]]:
    """Yield the other stores, and what of each. Raises UsageError where nothing may leave."""
    from fusefs.cli.backend import store_root
    from store.settings import load

    names = list(arguments)
    place = names.pop() if names and _is_place(names[-1]) else ""
    if names or projects or labels:
        if not place:
            raise click.UsageError("say behind the conversations where to: a directory, a socket, or ssh://HOST/DIR")
        yield place, _Wanted(names, projects, labels)
        return
    rules = load(store_root(store))[0].share
    if place and not leaving:
        yield place, _Wanted((), (), ())
        return
    places = dict.fromkeys(_spelled(rule.place) for rule in rules if rule.place and rule.project)
    chosen = [one for one in places if not place or one == _spelled(place)]
    if not chosen:
        raise click.UsageError(
            "nothing is named: name conversations, --project or --label, or write a [[share]] rule in convfs.toml"
        )
    for one in chosen:
        own = [rule.project for rule in rules if rule.project and _spelled(rule.place) == one]
        yield one, _Wanted((), own, (), typed=False)


def _spelled(place: str) -> str:
    return place if place.startswith(_SSH) else os.path.realpath(os.path.expanduser(place))


def _is_place(text: str) -> bool:
    return text.startswith((_SSH, "/", "./", "../", "~")) or text in (".", "..") or os.path.exists(text)


@contextmanager
def _both(
    store: Path | None, place: str, *, leaving: bool, dry_run: bool
) -> Iterator[tuple[Backend, Backend]]:
    """Reach this store and the other one; UsageError where both are the same.

    One that is pushed to is created; for a dry run, a throwaway one stands for it.
    """
    from fusefs.cli.backend import reach, require, store_root
    from store.errors import UsageError

    root = store_root(store)
    require(root)
    if not place.startswith(_SSH) and os.path.realpath(os.path.expanduser(place)) == os.path.realpath(root):
        raise UsageError(f"{place} is this very store: name another one")
    with reach(root) as here, _other(place, leaving=leaving, dry_run=dry_run) as there:
        yield here, there


@contextmanager
def _other(place: str, *, leaving: bool, dry_run: bool) -> Iterator[Backend]:
    from fusefs.cli.backend import on_trial, reach, require
    from fusefs.cli.mounts import convfs_above, root_of
    from store.service.caller import Caller

    if place.startswith(_SSH):
        how = ("--dry-run",) if dry_run and leaving else () if leaving else ("--no-create",)
        with Caller(command=_ssh(place, *how)) as client:
            yield client
        return
    path = Path(os.path.abspath(os.path.expanduser(place)))
    if (mount := convfs_above(path)) is not None:
        path = root_of(mount)
    elif path.exists() and stat.S_ISSOCK(path.stat().st_mode):
        with Caller(path) as client:
            yield client
        return
    if not leaving:
        require(path)
    with ExitStack() as stack:
        if dry_run:
            path = stack.enter_context(on_trial(path))
        yield stack.enter_context(reach(path, create=leaving))


def _ssh(place: str, *options: str) -> tuple[str, ...]:
    """Return the command that serves a store on another machine. UsageError for what is no such place."""
    from store.errors import UsageError

    try:
        parts = urlsplit(place)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{place} names no machine: {error}") from None
    host = parts.hostname or ""
    if not host or host.startswith("-") or (parts.username or "").startswith("-"):
        raise UsageError(f"{place} names no machine: write ssh://HOST/DIR")
    folder = unquote(parts.path)
    # the shell there finds the home directory: that is not quoted
    home = folder.startswith("/~/")
    where = "~/" + shlex.quote(folder[3:]) if home else shlex.quote(folder)
    words = ["convfs", *(["--store", where] if folder.strip("/") else []), "serve", "--stdio", *options]
    option = ("-p", str(port)) if port else ()
    user = f"{parts.username}@" if parts.username else ""
    return ("ssh", "-T", *option, "--", f"{user}{host}", " ".join(words))


def _push(
    store: Path | None,
    here: Backend,
    there: Backend,
    place: str,
    wanted: _Wanted,
    look: _Look,
    *,
    versions: bool,
    dry_run: bool,
    yes: bool,
    redact: bool,
) -> None:
    from fusefs.cli.backend import store_root
    from store.service.exchange import Transfer, reached_by, since
    from store.transfer import progress as done

    root = store_root(store)
    chosen = wanted.chosen(here)
    own, other = reached_by(here, there)
    _are_two(own, other, place)
    redact = redact or done.redacts(root, other.store_id)
    key = f"{done.REDACTED if redact else 'push'} {chosen}"
    with _shown("Pushing") as show:
        transfer = Transfer(here, there, show, redacted=redact, versions=versions)
        known = since(done.reached(root, other.store_id, key), own, other)
        offers = transfer.offers(chosen, known)
        wanted.see(offers, known)
        wanted.check()
        named = bool(wanted.names)
        if dry_run or not (yes or done.has_pushed(root, other.store_id)):
            going = _going(transfer, offers, named=named)
    if dry_run:
        return
    if not (yes or done.has_pushed(root, other.store_id)):
        _agree(here, going, place, redact=redact)
    with _shown("Pushing") as show:
        transfer = Transfer(here, there, show, redacted=redact, versions=versions)
        outcomes = transfer.run(offers, named=named)
    _note(root, other.store_id, key, own, there, outcomes)
    _tell("Pushed to", place, outcomes, transfer.bytes, look)


def _pull(
    store: Path | None,
    here: Backend,
    there: Backend,
    place: str,
    wanted: _Wanted,
    look: _Look,
    *,
    versions: bool,
    dry_run: bool,
    alone: bool,
) -> None:
    """Pull; ``alone``: there must be all that is wanted, as no push follows."""
    from fusefs.cli.backend import store_root
    from store.service.exchange import Transfer, reached_by, since
    from store.transfer import progress as done

    root = store_root(store)
    other, own = reached_by(there, here)
    _are_two(own, other, place)
    chosen = wanted.chosen(there) if alone else wanted.some(there)
    key = f"pull {chosen}"
    with _shown("Pulling") as show:
        transfer = Transfer(there, here, show, versions=versions)
        known = since(done.reached(root, other.store_id, key), other, own)
        offers = transfer.offers(chosen, known) if chosen is not None else []
        complete = wanted.see(offers, known)
        if alone:
            wanted.check()
        if dry_run:
            _going(transfer, offers, named=bool(wanted.names))
            return
        outcomes = transfer.run(offers, named=bool(wanted.names))
    if chosen is not None and complete:
        _note(root, other.store_id, key, other, here, outcomes)
    _tell("Pulled from", place, outcomes, transfer.bytes, look)


def _are_two(own: Place, other: Place, place: str) -> None:
    from store.errors import UsageError

    if own.store_id == other.store_id:
        raise UsageError(
            f"{place} is this very store, a replica of the same space, or a copy that nobody has opened yet: name "
            "another one"
        )


def _note(
    root: Path, other: str, key: str, giving: Place, taking: Backend, outcomes: Sequence[Outcome]
) -> None:
    """Note that all was compared up to now, unless something is yet to be done."""
    from store.service.exchange import place
    from store.transfer import progress as done

    if not any(one.what in ("refused", "wanted") for one in outcomes):
        done.note(root, other, key, done.Reached(giving.position, taking.call(place()).position))


def _going(transfer: Transfer, offers: Sequence[Offer], *, named: bool) -> list[tuple[int, str]]:
    """Print which conversations would go; return the id and name of each."""
    needed = {need.context for need in transfer.needed(offers, named=named).needs}
    going = [(one.context, f"{one.project}/{one.name}") for one in offers if one.context in needed and not one.is_file]
    for _context, name in going[:_SHOWN]:
        echo(name)
    if len(going) > _SHOWN:
        echo(f"… and {len(going) - _SHOWN} more")
    echo(f"{len(going)} of {sum(not one.is_file for one in offers)} conversations would go.")
    return going


def _agree(here: Backend, going: Sequence[tuple[int, str]], place: str, *, redact: bool) -> None:
    """List what in the conversations looks like a secret, and ask. Raises Abort where the answer is no."""
    from store.service.exchange import suspects

    if not going:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("no terminal to ask on before the first push: add --yes, or --dry-run to see it only")
    found = here.call(suspects([context for context, _name in going]))
    if found:
        how = "it is left out" if redact else "--redact leaves it out, `convfs redact --secrets` removes it here"
        echo(f"In these, something looks like a secret; {how}:")
        write_table([("", visible.line(one.name), f"{one.count} {one.kind}") for one in found[:_SHOWN]])
        if len(found) > _SHOWN:
            echo(f"… and {len(found) - _SHOWN} more")
    else:
        echo("Nothing in them looks like a secret.")
    click.confirm(f"Send this to {visible.line(place)}?", abort=True)


@contextmanager
def _shown(label: str) -> Iterator[Callable[[Any], None] | None]:
    with progress(
        name_column(label),
        "Text Bar MofNComplete TimeRemaining",
        lambda told: {"completed": told.done, "total": told.offered},
    ) as show:
        yield show


def _tell(deed: str, place: str, outcomes: Sequence[Outcome], size: int, look: _Look) -> None:
    counts = Counter(one.what for one in outcomes if one.name or one.what != "same")
    if look.later and not counts.keys() - {"same", "gone", "refused", "wanted"}:
        return
    told = [f"{counts[what]} {words}" for what, words in _WORDS.items() if counts[what]] or ["nothing new"]
    echo(f"{deed} {place}: {', '.join(told)}" + (f" ({size_text(size)})." if size else "."))
    for one in outcomes:
        if one.what == "diverged":
            echo(f"Both have changed: {one.name} stands beside it.")
    failed = [one for one in outcomes if one.what in ("refused", "wanted")]
    for one in failed:
        echo(f"convfs: {one.name} did not come along: {one.why or 'its contents are gone'}", err=True)
    if failed:
        raise click.exceptions.Exit(1)
