"""The contents of a file of conversations from any program. Pure; any thread."""

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
    """The conversations and other data that were found in a file or a folder.

    Attributes:
        program: The program that wrote it.
        conversations: The conversations that can be read.
        folders: The folders that they are in.
        presets: The presets; only our own archives have some.
        traces: The recorded tokens of answers; only our own archives have some.
        damaged: The parts that cannot be read: the place of each, and what is wrong with it.
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
        """Read parts one by one; a damaged one is noted, and the others are read.

        Args:
            parts: The parts.
            read: Reads one part.
            into: The list that the results are added to.
        """
        for part in parts:
            try:
                into.append(read(part))
            except DamagedFile as error:
                self.damaged.append(str(error))


def origin_of(program: str, name: str) -> str:
    """Return the id of a conversation's origin: another program, or another computer."""
    return f"{program.casefold().replace(' ', '-')}:{name}"
