"""Which files hold the beginning of a prompt, and what a new cache adds to them. Pure."""

import base64
import json
from array import array
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any

from engine.values.request import CacheOwner

# Sequences of token ids as bytes: fast to compare, and usable as keys.

TOKEN_BYTES = array("I").itemsize


def key_of(tokens: Sequence[int]) -> bytes:
    """Return token ids as bytes, ``TOKEN_BYTES`` for each."""
    return array("I", tokens).tobytes()


def common_tokens(one: bytes, other: bytes) -> int:
    """Return how many first tokens two keys share."""
    low, high = 0, min(len(one), len(other)) // TOKEN_BYTES
    if one[: high * TOKEN_BYTES] == other[: high * TOKEN_BYTES]:
        return high
    # Comparing bytes is fast, so a binary search is much faster than a loop.
    while low < high:
        middle = (low + high + 1) // 2
        part = slice(low * TOKEN_BYTES, middle * TOKEN_BYTES)
        if one[part] == other[part]:
            low = middle
        else:
            high = middle - 1
    return low


# The description of a segment in the header of its file.
#
# A cache is kept in segments: each file has the keys and values of some tokens, and names the
# file with the tokens before them. The name of a file contains a digest of its content. A file
# that matches its name is therefore intact, and so is the one before it if it matches the name in
# the header.

# Raised by one whenever this program can no longer use the files of earlier versions.
FORMAT = 2
_KEY = "fullstop"


class NotASegment(Exception):
    """A header does not describe a segment."""


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """Some tokens of a conversation whose keys and values a file holds."""

    model: str
    owner: CacheOwner
    parent: str
    start: int
    tokens: bytes
    is_whole: bool = False
    can_trim: bool = False

    @property
    def end(self) -> int:
        """The number of tokens up to its end."""
        return self.start + len(self.tokens) // TOKEN_BYTES

    def to_metadata(self) -> dict[str, str]:
        """Return it as metadata of a safetensors file."""
        fields = {
            "format": FORMAT,
            "model": self.model,
            "owner": self.owner.name,
            "kept_with": self.owner.kept_with,
            "parent": self.parent,
            "start": self.start,
            "tokens": base64.b64encode(self.tokens).decode(),
            "is_whole": self.is_whole,
            "can_trim": self.can_trim,
        }
        return {_KEY: json.dumps(fields)}

    @classmethod
    def from_metadata(cls, metadata: object) -> "SegmentHeader":
        """Read it from a file's metadata."""
        try:
            fields = json.loads(metadata[_KEY])  # type: ignore[index]
            if fields["format"] != FORMAT:
                raise NotASegment("of another version")
            found = cls(
                model=str(fields["model"]),
                owner=CacheOwner(str(fields["owner"]), str(fields["kept_with"])),
                parent=str(fields["parent"]),
                start=int(fields["start"]),
                tokens=base64.b64decode(fields["tokens"], validate=True),
                is_whole=bool(fields["is_whole"]),
                can_trim=bool(fields["can_trim"]),
            )
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise NotASegment(str(error)) from error
        if not found.tokens or len(found.tokens) % TOKEN_BYTES or found.start < 0:
            raise NotASegment("its tokens are no token ids")
        if bool(found.start) != bool(found.parent):
            raise NotASegment("its place is unclear")
        return found


# Segments form chains, and chains form trees: an edited question begins a branch. A new segment
# replaces those before it that are not longer, so that a chain of n turns has about log n files,
# and each token is written about log n times. Not thread-safe.

# Fewer tokens are not worth a file; the model reads them again.
LEAST_TOKENS = 32
_FIRST = 16 * TOKEN_BYTES


@dataclass(frozen=True, slots=True)
class Piece:
    """A file of a chain."""

    name: str
    segment: SegmentHeader
    end: int


@dataclass(frozen=True, slots=True)
class StoredBeginning:
    """The longest beginning of a prompt that files hold."""

    owner: str
    pieces: tuple[Piece, ...]
    tokens: int


@dataclass(frozen=True, slots=True, eq=False)
class LoadedBeginning:
    """The cache of a prompt's first tokens, read from disk."""

    cache: list[Any]
    tokens: int


@dataclass(frozen=True, slots=True)
class Addition:
    """The part of a new cache that is to be written."""

    parent: str
    start: int
    superseded: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Known:
    segment: SegmentHeader
    # All tokens up to its end, those of its parents included.
    tokens: bytes


class Chains:
    """The segments of one model."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def __len__(self) -> int:
        """Return the number of files."""
        return len(self._known)

    def add_all(self, segments: Iterable[tuple[str, SegmentHeader]]) -> list[str]:
        """Add files in any order; return those that cannot be used, for lack of their parents."""
        waiting = dict(segments)
        while ready := [name for name, one in waiting.items() if self._has_place_for(one)]:
            for name in ready:
                self.add(name, waiting.pop(name))
        return list(waiting)

    def _has_place_for(self, segment: SegmentHeader) -> bool:
        if not segment.parent:
            return True
        parent = self._known.get(segment.parent)
        return (
            parent is not None
            and not (parent.segment.is_whole or segment.is_whole)
            and parent.segment.start < segment.start <= parent.segment.end
        )

    def add(self, name: str, segment: SegmentHeader) -> None:
        """Add a file whose parent, if it has one, is here."""
        before = b""
        if segment.parent:
            before = self._known[segment.parent].tokens[: segment.start * TOKEN_BYTES]
        self._known[name] = _Known(segment, before + segment.tokens)

    def discard(self, names: Iterable[str]) -> list[str]:
        """Forget files and those that build on them; return the names of the dependent ones."""
        gone = [name for name in names if self._known.pop(name, None) is not None]
        orphans: list[str] = []
        while gone:
            parents = set(gone)
            gone = [name for name, one in self._known.items() if one.segment.parent in parents]
            for name in gone:
                del self._known[name]
            orphans += gone
        return orphans

    def keep_only(self, names: Set[str]) -> list[str]:
        """Forget files that are not among these; return the names of those that built on them."""
        return self.discard([name for name in self._known if name not in names])

    def names_up_from(self, name: str) -> list[str]:
        """Return the name of a file, of its parent, and so on."""
        names = []
        while name:
            names.append(name)
            name = self._known[name].segment.parent
        return names

    def longest(self, owner: str, tokens: bytes, most: int) -> StoredBeginning | None:
        """Return the files that hold most of a prompt's beginning."""
        best, best_tokens = "", 0
        for name, one in self._sharing(tokens):
            if one.segment.owner.name != owner:
                continue
            common = min(common_tokens(one.tokens, tokens), most)
            segment = one.segment
            if segment.is_whole and common < segment.end and not segment.can_trim:
                continue
            if common > best_tokens:
                best, best_tokens = name, common
        if not best:
            return None
        return StoredBeginning(owner, tuple(self._pieces(best, best_tokens)), best_tokens)

    def addition(self, owner: CacheOwner, tokens: bytes) -> Addition | None:
        """Return what to write of a cache that can be cut; None where files hold it already."""
        end = len(tokens) // TOKEN_BYTES
        parent, common = "", 0
        for name, one in self._sharing(tokens):
            if one.segment.owner == owner and not one.segment.is_whole:
                shared = common_tokens(one.tokens, tokens)
                if shared > common:
                    parent, common = name, shared
        if end - common < LEAST_TOKENS and common:
            return None
        # A parent that adds no token of its own is skipped: its own parent holds all of them.
        while parent and common <= self._known[parent].segment.start:
            parent = self._known[parent].segment.parent
        start = common
        while parent:
            segment = self._known[parent].segment
            if start - segment.start > end - start:
                break
            start, parent = segment.start, segment.parent
        return Addition(parent, start, self._superseded(owner, tokens, start))

    def _superseded(self, owner: CacheOwner, tokens: bytes, start: int) -> tuple[str, ...]:
        covered = {
            name
            for name, one in self._sharing(tokens)
            if one.segment.owner == owner
            and not one.segment.is_whole
            and one.segment.start >= start
            and tokens.startswith(one.tokens)
        }
        kept = {name for name in self._known if name not in covered}
        while needed := {self._known[name].segment.parent for name in kept} & covered:
            covered -= needed
            kept |= needed
        return tuple(covered)

    def snapshot(self, owner: CacheOwner, tokens: bytes) -> Addition | None:
        """Return what to write of a cache that is kept whole; None where a file holds it already.

        The longest earlier snapshot of the owner stays: the next turn seldom repeats an answer
        token by token, and then continues from the end of the answer's prompt.
        """
        before = {
            name: len(one.tokens)
            for name, one in self._sharing(tokens)
            if one.segment.owner == owner and one.segment.is_whole and tokens.startswith(one.tokens)
        }
        if len(tokens) in before.values():
            return None
        longest = max(before, key=lambda name: before[name], default="")
        return Addition("", 0, tuple(name for name in before if name != longest))

    def _sharing(self, tokens: bytes) -> Iterator[tuple[str, _Known]]:
        """Yield the files whose first tokens are those of a prompt."""
        first = tokens[:_FIRST]
        for name, one in self._known.items():
            if one.tokens[:_FIRST].startswith(first[: len(one.tokens)]):
                yield name, one

    def _pieces(self, name: str, end: int) -> list[Piece]:
        pieces = []
        for one in self.names_up_from(name):
            segment = self._known[one].segment
            if end > segment.start:
                pieces.append(Piece(one, segment, end))
                end = segment.start
        return pieces[::-1]
