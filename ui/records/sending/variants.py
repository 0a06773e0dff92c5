"""The model, settings and stops of one of two answers side by side. Pure; main thread."""

from dataclasses import dataclass

from engine import SAMPLING_OPTIONS, counted, quoted
from ui.records.chosen_model import ChosenModel
from ui.records.conversations import Conversation, ConversationSettings, StopEntry, rules_of

_STOPS_NAMED = 2


@dataclass(frozen=True, slots=True)
class Variant:
    """The model, settings and stop list of an answer.

    Attributes:
        settings: The settings.
        stops: The stop list.
        model: The model that answers; None for the one that is loaded.
    """

    settings: ConversationSettings
    stops: tuple[StopEntry, ...] = ()
    model: ChosenModel | None = None

    @staticmethod
    def of(conversation: Conversation) -> "Variant":
        """Return the variant of a conversation's next answer."""
        return Variant(conversation.settings, tuple(conversation.stops), conversation.model)

    def given_to(self, conversation: Conversation) -> Conversation:
        """Return a conversation with the same messages that uses this variant.

        It shares the messages with the original conversation; only the original is stored.
        """
        twin = Conversation(
            conversation.title, settings=self.settings, stops=self.stops, id=conversation.id
        )
        twin.model, twin.tree = self.model, conversation.tree
        return twin


def difference_words(variant: Variant, other: Variant) -> str:
    """Return in a few words how a variant differs from another; empty if it does not."""
    parts: list[str] = []
    if variant.model != other.model and variant.model is not None:
        parts.append(variant.model.name)
    mine, others = rules_of(variant.stops), rules_of(other.stops)
    if mine != others:
        parts.append(_stops(mine.strings))
    settings, before = variant.settings, other.settings
    if settings.system_prompt != before.system_prompt:
        parts.append("another system prompt" if settings.system_prompt else "no system prompt")
    if settings.max_tokens != before.max_tokens:
        most = settings.max_tokens
        parts.append("no limit" if most is None else _at_most(most))
    if settings.is_thinking != before.is_thinking:
        parts.append("with thinking" if settings.is_thinking else "without thinking")
    if settings.thinking_budget != before.thinking_budget:
        most = settings.thinking_budget
        parts.append("thinking without a limit" if most is None else f"thinks {_at_most(most)}")
    for option in SAMPLING_OPTIONS:
        value = getattr(settings, option.name)
        if value != getattr(before, option.name):
            shown = "model default" if value is None else f"{value:g}"
            parts.append(f"{option.title.lower()} {shown}")
    return " · ".join(parts)


def _at_most(tokens: int) -> str:
    return f"at most {counted(tokens, 'token')}"


def _stops(strings: tuple[str, ...]) -> str:
    if not strings:
        return "no stops"
    if len(strings) > _STOPS_NAMED:
        return counted(len(strings), "stop")
    return "stops at " + ", ".join(quoted(one, 16) for one in strings)
