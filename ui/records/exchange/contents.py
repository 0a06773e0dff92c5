"""What an export contains: conversations, folders, presets, and the parts that were left out."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from engine.wording import counted
from ui.records.codec import Preset
from ui.records.conversations import Conversation, ConversationFolder
from ui.records.exchange.pictures import ArchivedPictures
from ui.records.facts import Fact
from ui.records.titles import title_from_file

_MAX_NAMED = 5


@dataclass(frozen=True, slots=True)
class ListedConversation:
    """A conversation in a file, for a user who chooses among them."""

    number: int
    title: str
    messages: int
    updated_at: float
    origin: str
    folder_id: str


@dataclass(slots=True)
class FileContents:
    """The conversations and other data that were found in a file or a folder."""

    program: str
    path: Path = Path()
    new: list[ListedConversation] = field(default_factory=list)
    here: list[ListedConversation] = field(default_factory=list)  # imported before
    conversations: list[Conversation] = field(default_factory=list)
    listed: list[ListedConversation] = field(default_factory=list)
    folders: list[ConversationFolder] = field(default_factory=list)
    presets: list[Preset] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    traces: dict[str, str] = field(default_factory=dict)  # names of files, by runs
    pictures: ArchivedPictures = field(default_factory=ArchivedPictures)
    damaged: list[str] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    unread: list[str] = field(default_factory=list)

    def note_damage(self, text: str) -> None:
        """Note a part that cannot be read; beyond a limit, such parts are only counted."""
        if len(self.damaged) < 1_000:
            self.damaged.append(text[:300])
        else:
            self.left_out["more damaged part"] += 1

    def note_unknown(self) -> None:
        """Count a part of a kind that is not known here."""
        self.left_out["unknown part"] += 1

    @property
    def left_out_sentence(self) -> str:
        """The parts without a place here, as one sentence: "Left out: 2 pictures…", or empty."""
        parts = [counted(count, kind) for kind, count in sorted(self.left_out.items()) if count]
        if self.unread:
            shown = (title_from_file(name)[:60] for name in self.unread[:_MAX_NAMED])
            named = ", ".join(shown)
            more = "…" if len(self.unread) > _MAX_NAMED else ""
            parts.append(f"{counted(len(self.unread), 'other file')} ({named}{more})")
        return f"Left out: {', '.join(parts)}." if parts else ""

    @property
    def damage_sentence(self) -> str:
        """The parts that cannot be read, as one sentence; empty for none."""
        if not self.damaged:
            return ""
        named = "; ".join(self.damaged[:_MAX_NAMED])
        more = len(self.damaged) - _MAX_NAMED
        tail = f"; and {counted(more, 'more part')}" if more > 0 else ""
        return f"Damaged and left out: {named}{tail}."


def origin_of(program: str, name: str) -> str:
    """Return the id of a conversation's origin: another program, or another computer."""
    return f"{program.casefold().replace(' ', '-')}:{name}"
