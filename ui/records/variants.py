"""Two answers side by side: each has a model, settings and stops of its own."""

from dataclasses import dataclass

from engine.values.request import SAMPLING_OPTIONS
from engine.wording import counted, quoted
from ui.records.conversations import ChosenModel, Conversation, ConversationSettings
from ui.records.stop_entries import StopEntry, rules_of


@dataclass(frozen=True, slots=True)
class Variant:
    """The model, settings and stop list of an answer."""

    settings: ConversationSettings
    stops: tuple[StopEntry, ...] = ()
    model: ChosenModel | None = None

    @staticmethod
    def of(conversation: Conversation) -> "Variant":
        """Return the variant of a conversation's next answer."""
        return Variant(conversation.settings, tuple(conversation.stops), conversation.model)

    def given_to(self, conversation: Conversation) -> Conversation:
        """Return a conversation with the same messages that uses this variant; it is not stored."""
        twin = conversation.twin(conversation.title, ())
        twin.id, twin.tree = conversation.id, conversation.tree
        twin.settings, twin.stops, twin.model = self.settings, list(self.stops), self.model
        return twin


def describe_difference(variant: Variant, other: Variant) -> str:
    """Return in a few words how the settings of a variant differ from another's; empty for not."""
    parts: list[str] = []
    mine, others = rules_of(variant.stops), rules_of(other.stops)
    if mine != others:
        parts.append(_stops(mine.strings))
    settings, before = variant.settings, other.settings
    if settings.system_prompt != before.system_prompt:
        parts.append("another system prompt" if settings.system_prompt else "no system prompt")
    if settings.max_tokens != before.max_tokens:
        limit = settings.max_tokens
        parts.append("no limit" if limit is None else _limit_text(limit))
    if settings.is_thinking != before.is_thinking:
        parts.append("with thinking" if settings.is_thinking else "without thinking")
    if settings.thinking_budget != before.thinking_budget:
        limit = settings.thinking_budget
        parts.append(
            "thinking without a limit" if limit is None else f"thinks {_limit_text(limit)}"
        )
    for option in SAMPLING_OPTIONS:
        value = getattr(settings, option.name)
        if value != getattr(before, option.name):
            shown = "model default" if value is None else f"{value:g}"
            parts.append(f"{option.title.lower()} {shown}")
    return " · ".join(parts)


def _limit_text(tokens: int) -> str:
    return f"at most {counted(tokens, 'token')}"


def _stops(strings: tuple[str, ...]) -> str:
    if not strings:
        return "no stops"
    if len(strings) > 2:
        return counted(len(strings), "stop")
    return "stops at " + ", ".join(quoted(string, 16) for string in strings)
