"""Access: who may read a space, and how the keys come to them.

The servers hold these records (``store.shared.space.Records``), and can read of them what stands here:

- ``generation``: which key is used now, 0 before the first replica, and a text sealed with it. It is opened before
  anything else, so a wrong key is one line. ``allotted`` is the last number that a key was given: keys that are made
  at once have different ones. A space without this record is not encrypted.
- ``key/NUMBER``, of each replica: its public key, the space keys wrapped for it, by whom, and its *card* for each
  generation: name, role and public key, sealed with that space key. The card is what makes a public key that of a
  member: a server can make a record, and no card. So a key is taken only from a machine whose card opens.
- ``invite/ID``, of an invitation: its code, sealed with the space key, for members to know it by.
- ``request/ID``, of who comes with it: a public key, and the name and role, sealed with a key that follows from the
  code. There is one for each code, so an invitation serves once.

*Joining.* An invitation is a line with a code of 128 random bits, which goes from person to person. Who joins makes a
key pair and files a request. A member that finds it opens it with the invitation's code: so the public key is that of
somebody who has the line. It wraps the space keys for that key, and the code goes into the wrapping: so they are those
of somebody who knows it, and nobody is led into a space that another has made. The code never leaves the two ends, and
is too long to be guessed, from what the servers have or otherwise: that is why no password-authenticated exchange is
needed, which serves short codes. Of itself it opens nothing: who learns it later, when it has been used, learns no key.

*Rotation.* A new key is wrapped for every member that has not been revoked. Who was revoked keeps what it has, and the
keys before; it gets nothing that is sealed from then on. Entries are never sealed with an older key than the entry
before them: what a revoked machine seals with an old one is found.

*Giving up.* After a redaction nothing in the space is sealed with the keys from before, and each machine erases those
that it has. Copies of the servers' records still have them, wrapped for its public key, so it makes another of these,
and a card for it. A wrapped key therefore has with it the card of who has wrapped it, as it was then: one that the
recipient can open, however long it was away, with the key that it was given before.
"""

import os
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct, structs

from store import typed
from store.errors import DamageError, Unreachable, UsageError
from store.ids import now_ms
from store.shared import ciphertext, keys, roster
from store.shared.keys import Keyring
from store.shared.space import ENCRYPTED, Record, Records


class Revoked(DamageError):
    """This machine is not to have the keys of the space any more."""


Role = Literal["reader", "writer", "admin"]

INVITED_MS = 24 * 3600 * 1000
"""How long an invitation is good."""

_T = TypeVar("_T")

_KEYS = "key/"
_INVITES = "invite/"
_REQUESTS = "request/"
_CODE_BYTES = 16


class Current(Struct, frozen=True):
    """The record ``generation``. ``test`` is base64."""

    generation: int
    allotted: int
    test: str


class Wrapped(Struct, frozen=True, omit_defaults=True):
    """A space key that the replica ``by`` has wrapped, in base64; ``invited``: with the code of an invitation.

    ``sender`` is the public key of who has wrapped it, if that was done with a code; else its card, sealed with the
    last key that the recipient had been given before.
    """

    by: int
    key: str
    invited: bool = False
    sender: str = ""


class KeyRecord(Struct, frozen=True, omit_defaults=True):
    """The record of a replica: base64 throughout, by generation; ``login``, if the server has one for it."""

    public: str
    cards: dict[int, str]
    wrapped: dict[int, Wrapped]
    revoked_ms: int = 0
    login: str = ""


class Card(Struct, frozen=True):
    """A replica, as members vouch for it. ``public`` in base64."""

    machine: str
    role: Role
    public: str


class _Invite(Struct, frozen=True):
    """The record of an invitation: the code, sealed for members."""

    code: str
    role: Role
    expires_ms: int
    login: str = ""


class _Request(Struct, frozen=True):
    """The record of who wants to join; ``card`` is sealed with the code, ``number`` given on approval."""

    public: str
    card: str
    number: int = 0


class Standing(Struct, frozen=True):
    """A replica as members see it: whether it may, and which keys were wrapped for it."""

    number: int
    machine: str
    role: Role
    revoked_ms: int
    generations: list[int]
    login: str


class Access:
    """The keys of one replica of a space, and what it does to those of others. Safe to share between threads."""

    def __init__(self, records: Records, space: bytes, name: str, number: int, root: Path, keyring: Keyring) -> None:
        self._records = records
        self._space = space
        self.name = name
        """The name of the space."""
        self._number = number
        self._root = root
        self._keyring = keyring
        self._lock = threading.RLock()
        self._role: Role | None = None
        self._complete = 0
        """The last key that all members were seen to have."""

    # -- keys ------------------------------------------------------------------------------------------------------

    @property
    def role(self) -> Role:
        """The role of this replica, as its card has it."""
        if self._role is None:
            self._role = self._card(self._number, _read(self._records.record(_key(self._number)), KeyRecord)).role
        return self._role

    def check_writes(self) -> None:
        """Raise Unreachable if this replica only reads."""
        if self.role == "reader":
            raise Unreachable(f"this machine may read the space {self.name}, and not write to it")

    @property
    def keys(self) -> Mapping[int, bytes]:
        """The space keys that this replica has, by generation."""
        return self._keyring.generations

    @property
    def newest(self) -> tuple[int, bytes]:
        """The last key that this replica has, with its generation."""
        keyring = self._keyring
        return keyring.newest, keyring.generations[keyring.newest]

    def current(self) -> tuple[int, bytes]:
        """Return the key that is used now, with its generation. Raises as :meth:`refresh`."""
        self.refresh()
        return self.newest

    def refresh(self) -> None:
        """Take the keys that were made since, and see that the current one is right.

        Raises Unreachable, DamageError if the current key is another or is missing, and Revoked if it is not for this
        replica.
        """
        with self._lock:
            current = self._current()[1]
            if current.generation > self._keyring.newest:
                self._take(current.generation)
            if current.generation < self._keyring.newest:
                raise DamageError(
                    f"the space {self.name} is back at key {current.generation}, and this replica has key "
                    f"{self._keyring.newest}: it was put back from a backup, or tampered with"
                )
            self._test(current)

    def begin(self, card: Card, login: str) -> None:
        """Make the first key of this keyring that of the space. UsageError if another has done so just now."""
        sealed = {1: self._sealed_card(card, self._number, 1)}
        wrapped = keys.wrap(self.keys[1], 1, self._space, self._keyring, self._keyring.public)
        own = KeyRecord(card.public, sealed, {1: Wrapped(self._number, _text(wrapped))}, login=login)
        self._swap(Record(_key(self._number), 0, b""), own)
        record, current = self._current()
        if current.generation or not self._swap(record, Current(1, 1, self._test_text(self._keyring, 1))):
            for key in (_key(self._number), roster.key_of(self._number)):
                self._records.swap(key, 1, b"")
            raise UsageError(f"another machine was the first in the space {self.name} just now: it can invite this one")

    def rotate(self) -> int:
        """Make a new key for all members that have not been revoked; return its generation.

        All that is appended once this returns is sealed with it, whoever does it. Raises as :meth:`refresh`, and
        UsageError if this replica may not.
        """
        self._administer()
        with self._lock:
            self.refresh()
            while True:
                record, current = self._current()
                generation = current.allotted + 1
                if self._swap(record, structs.replace(current, allotted=generation)):
                    break
            made = self._keyring.having({generation: keys.new_space_key()})
            # for this machine, too: it is not lost once others seal with it, and nobody has it before that
            for record in self._records.records(_KEYS):
                self._admit(record, made, generation)
            test = self._test_text(made, generation)
            while True:
                record, current = self._current()
                if current.generation >= generation:
                    # another was made at once, and is newer
                    self.refresh()
                    return current.generation
                if self._swap(record, Current(generation, max(current.allotted, generation), test)):
                    self._keyring = made
                    made.write(self._root)
                    return generation

    def give_up(self, generation: int) -> None:
        """Erase the keys before ``generation``, and that for which they were wrapped: nothing opens what they sealed.

        Done once more where it was interrupted. Raises as :meth:`refresh`.
        """
        with self._lock:
            if self._keyring.first >= generation and not self._keyring.former:
                return
            if not self._keyring.former:
                # on the disk first: keys are wrapped for it from now on
                renewed = self._keyring.renewed()
                renewed.replace(self._root)
                self._keyring = renewed
            while True:
                self.refresh()
                record = self._records.record(_key(self._number))
                read = _read(record, KeyRecord)
                if read.public == _text(self._keyring.public):
                    break
                card = structs.replace(self._card(self._number, read), public=_text(self._keyring.public))
                kept = self._keyring.since(generation)
                changed = structs.replace(
                    read,
                    public=card.public,
                    cards={one: self._sealed_card(card, self._number, one) for one in kept.generations},
                    wrapped={
                        one: Wrapped(self._number, _text(keys.wrap(key, one, self._space, kept, kept.public)))
                        for one, key in kept.generations.items()
                    },
                )
                if self._swap(record, changed):
                    break
            self._keyring = self._keyring.since(generation)
            self._keyring.replace(self._root)

    def reseal_invitations(self) -> None:
        """Seal the codes of invitations with the newest key, so that they outlast those before. Raises Unreachable."""
        generation, key = self.current()
        for record in self._records.records(_INVITES):
            invite = _read(record, _Invite)
            try:
                code = ciphertext.open_object(self.keys, self._space, record.key, _bytes(invite.code))
            except DamageError:
                continue
            sealed = ciphertext.seal_object(key, generation, self._space, record.key, code)
            self._swap(record, structs.replace(invite, code=_text(sealed)))

    # -- members ---------------------------------------------------------------------------------------------------

    def members(self) -> list[Standing]:
        """Return all replicas, by number. Raises Unreachable, DamageError."""
        found = []
        for record in self._records.records(_KEYS):
            number, read = _number(record), _read(record, KeyRecord)
            try:
                card = self._card(number, read)
            except DamageError:
                # somebody who may write to the servers has put it there; it gets no key
                card = Card("unknown", "reader", read.public)
            found.append(Standing(number, card.machine, card.role, read.revoked_ms, sorted(read.wrapped), read.login))
        return found

    def other(self, machine: str) -> Standing:
        """Return another replica, by its number or the name of its machine.

        Raises UsageError if there is none of that name, or several, or it is this one.
        """
        found = [
            one for one in self.members() if machine in {str(one.number), one.machine} and not one.revoked_ms
        ]
        if not found:
            raise UsageError(f"the space {self.name} has no machine {machine}: see convfs remote status")
        if len(found) > 1:
            numbers = ", ".join(str(one.number) for one in found)
            raise UsageError(f"{machine} has the replicas {numbers}: name one by its number")
        if found[0].number == self._number:
            raise UsageError(f"{machine} is this machine: revoke it on another one")
        return found[0]

    def revoke(self, number: int) -> int:
        """Give a replica no more keys; return the new generation. Raises as :meth:`rotate`."""
        self._administer()
        while True:
            record = self._records.record(_key(number))
            read = _read(record, KeyRecord)
            if self._swap(record, structs.replace(read, revoked_ms=now_ms())):
                break
        while True:
            generation = self.rotate()
            # not if it was wrapped by somebody who had not read of the revocation yet
            if generation not in _read(self._records.record(_key(number)), KeyRecord).wrapped:
                return generation

    def invite(self, role: Role = "writer", login: str = "") -> bytes:
        """Return the code of a new invitation, for a machine with that role and login. Raises as :meth:`rotate`."""
        self._administer()
        code = os.urandom(_CODE_BYTES)
        generation, key = self.current()
        name = _INVITES + _id(code, self._space)
        sealed = _text(ciphertext.seal_object(key, generation, self._space, name, code))
        self._swap(Record(name, 0, b""), _Invite(sealed, role, now_ms() + INVITED_MS, login))
        return code

    def approve(self) -> list[str]:
        """Let in who has come with a valid invitation; return the names of their machines. Raises as :meth:`rotate`.

        Members that lack the current key, since it was made while they joined, get it, too.
        """
        self._administer()
        let_in = []
        self.refresh()
        for record in self._records.records(_REQUESTS):
            request = _read(record, _Request)
            if not request.number and (name := self._let_in(record, request)):
                let_in.append(name)
        generation = self._keyring.newest
        if let_in or generation != self._complete:
            for record in self._records.records(_KEYS):
                self._admit(record, self._keyring, generation)
            self._complete = generation
        return let_in

    def _administer(self) -> None:
        if self.role != "admin":
            raise UsageError(f"this machine is a {self.role} of the space {self.name}: an admin of it can do that")

    def _let_in(self, record: Record, request: _Request) -> str:
        """Approve a request; return the machine's name, or "" if it has no valid invitation, or another was first."""
        invited = self._records.record(_INVITES + record.key.removeprefix(_REQUESTS))
        if not invited.value:
            return ""
        invite = _read(invited, _Invite)
        if invite.expires_ms < now_ms():
            return ""
        try:
            code = ciphertext.open_object(self.keys, self._space, invited.key, _bytes(invite.code))
        except ciphertext.Locked:
            # made while something was redacted, and of no use any more
            return ""
        card = _open_request(record.key, request, code, self._space)
        card = structs.replace(card, role=invite.role)
        member = roster.join(self._records, "")
        public = _bytes(request.public)
        made = KeyRecord(
            request.public,
            {generation: self._sealed_card(card, member.number, generation) for generation in self.keys},
            {
                generation: Wrapped(
                    self._number,
                    _text(keys.wrap(key, generation, self._space, self._keyring, public, code)),
                    invited=True,
                    sender=_text(self._keyring.public),
                )
                for generation, key in self.keys.items()
            },
            login=invite.login,
        )
        self._swap(Record(_key(member.number), 0, b""), made)
        if self._swap(record, structs.replace(request, number=member.number)):
            self._records.swap(invited.key, invited.version, b"")
            return card.machine
        for key in (_key(member.number), roster.key_of(member.number)):
            self._records.swap(key, 1, b"")
        return ""

    def _admit(self, record: Record, keyring: Keyring, generation: int) -> None:
        """Vouch for a replica by a card, and wrap a key for it if it was not revoked, unless it has them."""
        number = _number(record)
        while record.value:
            read = _read(record, KeyRecord)
            if generation in read.cards:
                return
            try:
                card = self._card(number, read)
            except DamageError:
                return
            key = keyring.generations[generation]
            wrapped = dict(read.wrapped)
            if not read.revoked_ms:
                text = keys.wrap(key, generation, self._space, self._keyring, _bytes(card.public))
                before = max((one for one in wrapped if one in self.keys and one < generation), default=0)
                sender = self._sealed_card(self._own_card(), self._number, before) if before else ""
                wrapped[generation] = Wrapped(self._number, _text(text), sender=sender)
            cards = {**read.cards, generation: self._sealed_card(card, number, generation, key)}
            more = structs.replace(read, cards=cards, wrapped=wrapped)
            if self._swap(record, more):
                return
            record = self._records.record(record.key)

    def _own_card(self) -> Card:
        card = self._card(self._number, _read(self._records.record(_key(self._number)), KeyRecord))
        # the one that this process wraps with
        return structs.replace(card, public=_text(self._keyring.public))

    def _card(self, number: int, read: KeyRecord) -> Card:
        """Return the card of a replica. DamageError if none of it can be opened, or it is of another public key."""
        known = [generation for generation in read.cards if generation in self.keys]
        if not known:
            raise DamageError(f"nobody vouches for replica {number} of the space {self.name}")
        sealed = _bytes(read.cards[max(known)])
        text = ciphertext.open_object(self.keys, self._space, _key(number), sealed)
        card = typed.decode(text, Card)
        if card.public != read.public:
            raise DamageError(f"replica {number} of the space {self.name} has another public key than it had")
        return card

    def _sealed_card(self, card: Card, number: int, generation: int, key: bytes | None = None) -> str:
        text = msgspec.json.encode(card)
        return _text(ciphertext.seal_object(key or self.keys[generation], generation, self._space, _key(number), text))

    # -- records ---------------------------------------------------------------------------------------------------

    def _current(self) -> tuple[Record, Current]:
        record = self._records.record(ENCRYPTED)
        return record, _read(record, Current)

    def _test_text(self, keyring: Keyring, generation: int) -> str:
        key = keyring.generations[generation]
        return _text(ciphertext.seal_object(key, generation, self._space, ENCRYPTED, b""))

    def _test(self, current: Current) -> None:
        try:
            ciphertext.open_object(self.keys, self._space, ENCRYPTED, _bytes(current.test))
        except DamageError:
            raise DamageError(
                f"the keys of this replica do not open the space {self.name}: "
                "join it anew, in another directory, with a line of convfs remote invite"
            ) from None

    def _take(self, until: int) -> None:
        """Unwrap the keys that are missing, up to a generation. Revoked if there are none for this replica."""
        own = _read(self._records.record(_key(self._number)), KeyRecord)
        keyring = self._keyring.known_as(_bytes(own.public))
        more: dict[int, bytes] = {}
        for generation in sorted(own.wrapped):
            # those that were made at once with one of its own, too: later ones may come with a card sealed with these
            if generation not in self.keys and self._keyring.first <= generation <= until:
                wrapped = own.wrapped[generation]
                try:
                    by = self._sender(wrapped, {**self.keys, **more})
                    args = (generation, self._space, keyring, _bytes(by.public))
                    more[generation] = keys.unwrap(_bytes(wrapped.key), *args)
                except DamageError:
                    if generation == until:
                        raise
        if until not in more:
            if own.revoked_ms:
                raise Revoked(f"this machine was revoked from the space {self.name}: what it has can still be read")
            raise DamageError(f"key {until} of the space {self.name} has not been given to this machine yet")
        self._keyring = self._keyring.having(more)
        self._keyring.write(self._root)

    def _sender(self, wrapped: Wrapped, known: Mapping[int, bytes]) -> Card:
        """Return the card of who has wrapped a key, as it was then. DamageError."""
        if wrapped.sender and not wrapped.invited:
            text = ciphertext.open_object(known, self._space, _key(wrapped.by), _bytes(wrapped.sender))
            return typed.decode(text, Card)
        return self._card(wrapped.by, _read(self._records.record(_key(wrapped.by)), KeyRecord))

    def _swap(self, record: Record, value: Struct) -> bool:
        return self._records.swap(record.key, record.version, msgspec.json.encode(value))




# -- joining -----------------------------------------------------------------------------------------------------------


def without_key() -> Mapping[str, bytes]:
    """Return the records that an encrypted space begins with."""
    return {ENCRYPTED: msgspec.json.encode(Current(0, 0, ""))}


def found(records: Records, space: bytes, name: str, machine: str, login: str, root: Path) -> int:
    """Make the first key of a space, and the replica at ``root`` its first member; return its number.

    Raises UsageError if the space has a key already.
    """
    if _read(records.record(ENCRYPTED), Current).generation:
        raise UsageError(
            f"the space {name} is encrypted: convfs remote invite, on a machine that is in, makes a line to join with"
        )
    keyring = Keyring.new({1: keys.new_space_key()})
    # on the disk first: it must not be lost once something is sealed with it
    keyring.write(root)
    member = roster.join(records, "")
    access = Access(records, space, name, member.number, root, keyring)
    access.begin(Card(machine, "admin", _text(keyring.public)), login)
    return member.number


def ask(records: Records, space: bytes, name: str, code: bytes, machine: str, root: Path) -> None:
    """Ask to be let into a space, with the code of an invitation, for the replica that ``root`` is to be.

    The keyring of ``root`` is made, or that of an earlier try is used. Raises UsageError if the invitation was used
    by another, or is none.
    """
    keyring = keys.read(root)
    if keyring is None:
        keyring = Keyring.new()
        keyring.write(root)
    identifier = _id(code, space)
    public = _text(keyring.public)
    record = records.record(_REQUESTS + identifier)
    if not record.version:
        invited = records.record(_INVITES + identifier)
        if not invited.value:
            raise UsageError(f"the space {name} knows of no such invitation: make another with convfs remote invite")
        if _read(invited, _Invite).expires_ms < now_ms():
            raise UsageError(
                f"this invitation is older than a day, if the clock here is right ({time.strftime('%Y-%m-%d %H:%M')}):"
                " make another with convfs remote invite"
            )
        card = msgspec.json.encode(Card(machine, "reader", public))
        sealed = ciphertext.seal_object(_request_key(code, space), 0, space, record.key, card)
        if records.swap(record.key, 0, msgspec.json.encode(_Request(public, _text(sealed)))):
            return
        record = records.record(record.key)
    if not record.value or _read(record, _Request).public != public:
        raise UsageError("this invitation has been used: make another with convfs remote invite")


def answered(records: Records, space: bytes, name: str, code: bytes, root: Path) -> int:
    """Take the keys if the request of the replica at ``root`` was approved; return its number, 0 if it was not yet.

    Raises DamageError if the keys are not those of somebody who knows the code, or do not open the space.
    """
    record = records.record(_REQUESTS + _id(code, space))
    keyring = keys.read(root)
    number = _read(record, _Request).number
    if not number or keyring is None:
        return 0
    own = _read(records.record(_key(number)), KeyRecord)
    for generation, wrapped in sorted(own.wrapped.items()):
        if wrapped.invited:
            by = wrapped.sender or _read(records.record(_key(wrapped.by)), KeyRecord).public
            args = (generation, space, keyring, _bytes(by), code)
            keyring = keyring.having({generation: keys.unwrap(_bytes(wrapped.key), *args)})
    access = Access(records, space, name, number, root, keyring)
    access.refresh()
    keyring.having(access.keys).write(root)
    records.swap(record.key, record.version, b"")
    return number


def _open_request(name: str, request: _Request, code: bytes, space: bytes) -> Card:
    """Return the card of who asks. DamageError if it was not made with the code, or for another public key."""
    sealed = _bytes(request.card)
    card = typed.decode(ciphertext.open_object({0: _request_key(code, space)}, space, name, sealed), Card)
    if card.public != request.public:
        raise DamageError(f"{name}: the public key of this request was changed")
    return card


def _request_key(code: bytes, space: bytes) -> bytes:
    return ciphertext.derived(code, space, b"convfs request\0")


def _id(code: bytes, space: bytes) -> str:
    return ciphertext.derived(code, space, b"convfs invitation\0")[:8].hex()


# -- values of records -------------------------------------------------------------------------------------------------


def _key(number: int) -> str:
    return f"{_KEYS}{number:06}"


def _number(record: Record) -> int:
    tail = record.key.removeprefix(_KEYS)
    return int(tail) if tail.isdecimal() else 0


def _read(record: Record, kind: type[_T]) -> _T:
    try:
        return typed.decode(record.value, kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise DamageError(f"the record {record.key} of the space makes no sense, or is gone") from None


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise DamageError("a key or a card in a record of the space is no base64") from None
