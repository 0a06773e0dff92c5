"""What an import kept of each conversation, and what not: made at its end, kept with it. Pure."""

import json
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

from engine import counted
from engine.files.json_fields import Fields, parsed_json
from ui.records.conversations import Conversation
from ui.records.exchange.contents import MARK, left_out_parts

# A report is shown whole.
_MOST_DAMAGED, _MOST_UNREAD = 200, 200


@dataclass(frozen=True, slots=True)
class ReportedConversation:
    """A conversation of an import.

    Attributes:
        conversation_id: The conversation.
        title: Its title at the import.
        kept: How many things of each kind came in.
        left_out: How many things of each kind did not.
    """

    conversation_id: str
    title: str
    kept: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def kept_words(self) -> str:
        """What came in, in words."""
        return ", ".join(counted(count, kind) for kind, count in self.kept.items())

    @property
    def left_out_words(self) -> str:
        """What did not come in, with the fields of the file that have it; empty for nothing."""
        return ", ".join(left_out_parts(self.left_out, with_fields=True))

    @property
    def missed_words(self) -> str:
        """What of it a person could miss, in words alone; empty for nothing."""
        return ", ".join(left_out_parts(self.left_out))

    @property
    def is_less(self) -> bool:
        """Whether something that a person could miss did not come in."""
        return any(not kind.startswith(f"{MARK}: ") for kind in self.left_out)


@dataclass(frozen=True, slots=True)
class ImportReport:
    """An import.

    Attributes:
        program: The program whose conversations they are.
        name: The name of the file or folder.
        conversations: The conversations, in their order.
        left_out: What of the file belongs to no conversation and did not come in.
        damaged: The parts that could not be read.
        unread: The files that hold no conversations.
        imported_at: Unix time, in seconds.
        id: Unique.
    """

    program: str
    name: str
    conversations: tuple[ReportedConversation, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    damaged: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    imported_at: float = field(default_factory=time.time)
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def sentence(self) -> str:
        """What was imported, as a sentence."""
        less = sum(conversation.is_less for conversation in self.conversations)
        count = counted(len(self.conversations), "conversation")
        said = f"{count} from {self.program}: {self.name}."
        if not less:
            return f"{said} Nothing was left out that matters here."
        return f"{said} Something was left out of {counted(less, 'conversation')}."

    def rest(self, *, with_fields: bool = False) -> list[str]:
        """Return what of the file came in nowhere, in lines.

        Args:
            with_fields: Whether to name the fields of the file, which mean nothing to most people.
        """
        lines = [f"Damaged: {words}" for words in self.damaged]
        lines += [f"Not read: {name}" for name in self.unread]
        if parts := left_out_parts(self.left_out, with_fields=with_fields):
            lines.append(f"Left out: {', '.join(parts)}")
        return lines

    def of(self, conversation_id: str) -> ReportedConversation | None:
        """Return the report on a conversation; None if it is not part of the import."""
        reports = (
            conversation
            for conversation in self.conversations
            if conversation.conversation_id == conversation_id
        )
        return next(reports, None)

    def text(self) -> str:
        """Return the whole report as plain text."""
        lines = [self.sentence, *self.rest(with_fields=True)]
        for told in self.conversations:
            lines += ["", told.title, f"  Kept: {told.kept_words}"]
            if told.left_out_words:
                lines.append(f"  Left out: {told.left_out_words}")
        return "\n".join(lines) + "\n"


def reported(conversation: Conversation, left_out: Mapping[str, int]) -> ReportedConversation:
    """Return the report on a conversation that was imported."""
    kept: Counter[str] = Counter()
    shown = conversation.messages
    kept["message"] = len(shown)
    kept["alternative message"] = len(conversation.tree) - len(shown)
    for message in conversation.tree:
        run = message.run
        kept["picture"] += sum(not file.is_sound for file in message.pictures)
        kept["sound recording"] += sum(file.is_sound for file in message.pictures)
        kept["attached file"] += sum(
            not file.kept_file and not file.is_only_named for file in message.files
        )
        if run is not None:
            kept["reasoned answer"] += bool(run.thinking)
            kept["tool call"] += len(run.tool_calls)
            kept["known ending"] += run.finished is not None
    settings, place = conversation.settings, conversation.placement
    kept["system prompt"] = bool(settings.system_prompt)
    kept["stop sequence"] = len(conversation.stops)
    answered = {message.run.model_id for message in conversation.tree if message.run is not None}
    kept["model"] = len(answered - {""}) or conversation.model is not None
    kept["folder"] = bool(place.folder_id)
    kept["star"] = conversation.is_pinned
    kept["archive"] = place.is_archived
    kept["draft"] = bool(conversation.draft.strip())
    return ReportedConversation(
        conversation.id,
        conversation.title,
        {kind: int(count) for kind, count in kept.items() if count},
        dict(left_out),
    )


def made_report(
    program: str,
    name: str,
    conversations: Iterable[ReportedConversation],
    left_out: Mapping[str, int],
    damaged: Iterable[str],
    unread: Iterable[str],
) -> ImportReport:
    """Return the report of an import."""
    return ImportReport(
        program,
        name,
        tuple(conversations),
        dict(left_out),
        tuple(damaged)[:_MOST_DAMAGED],
        tuple(unread)[:_MOST_UNREAD],
    )


def report_json(report: ImportReport) -> str:
    """Return a report as it is kept."""
    return json.dumps(asdict(report))


def report_from(text: str) -> ImportReport:
    """Return a report as it was kept.

    Raises:
        DamagedFile: It is none.
    """
    fields = Fields(parsed_json(text))
    return ImportReport(
        fields.take("program", str),
        fields.take("name", str),
        tuple(
            ReportedConversation(
                item.take("conversation_id", str),
                item.take("title", str),
                item.inner("kept").each(int),
                item.inner("left_out").each(int),
            )
            for item in fields.items("conversations")
        ),
        fields.inner("left_out").each(int),
        tuple(str(words) for words in fields.take("damaged", list)),
        tuple(str(words) for words in fields.take("unread", list)),
        fields.take("imported_at", float),
        fields.take("id", str),
    )
