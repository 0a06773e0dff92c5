"""The description of a segment in the header of its file. Pure; any thread.

A cache is kept in segments: each file has the keys and values of some tokens, and names the file
with the tokens before them. The name of a file contains a digest of its content. A file that
matches its name is therefore intact, and so is the one before it if it matches the name in the
header.
"""

import base64
import json
from dataclasses import dataclass

from engine.inference.caching.token_keys import TOKEN_BYTES
from engine.values.request import CacheOwner

# Raised by one whenever this program can no longer use the files of earlier versions.
FORMAT = 2
_KEY = "fullstop"


class NotASegment(Exception):
    """A header does not describe a segment."""


@dataclass(frozen=True, slots=True)
class Segment:
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
    def from_metadata(cls, metadata: object) -> "Segment":
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
