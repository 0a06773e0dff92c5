"""What a file of conversations holds, whichever program wrote it. Pure; any thread."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from engine.files.fields import DamagedFile, Fields
from ui.records.conversations import Conversation, ConversationFolder
from ui.records.exchange.archived_traces import ArchivedTraces, UnpackedTraces
from ui.records.presets import Preset

_T = TypeVar("_T")


@dataclass(slots=True)
class FoundConversations:
    """What was found in a file or a folder.

    Attributes:
        program: The program that wrote it.
        conversations: Those that can be read.
        folders: The folders that they are in.
        presets: Presets, of our own archives.
        traces: The recorded tokens of answers, of our own archives.
        damaged: The parts that cannot be read: where they are, and what is wrong with them.
    """

    program: str
    conversations: list[Conversation] = field(default_factory=list)
    folders: list[ConversationFolder] = field(default_factory=list)
    presets: list[Preset] = field(default_factory=list)
    traces: ArchivedTraces = field(default_factory=UnpackedTraces)
    damaged: list[str] = field(default_factory=list)

    def read_each(
        self, parts: Iterable[Fields], read: Callable[[Fields], _T], into: list[_T]
    ) -> None:
        """Read parts one by one; what is wrong with one is noted, and the others are read.

        Args:
            parts: The parts.
            read: Reads one.
            into: Where what was read is added.
        """
        for part in parts:
            try:
                into.append(read(part))
            except DamagedFile as error:
                self.damaged.append(str(error))


def origin_of(program: str, name: str) -> str:
    """Return what identifies a conversation of another program, or of another computer."""
    return f"{program.casefold().replace(' ', '-')}:{name}"
