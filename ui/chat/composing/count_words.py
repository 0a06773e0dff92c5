"""Says how many tokens a message has and how full the model's context would be. Pure."""

from engine import counted
from ui.chat.composing.context_meter import Count


def row_words(count: Count) -> tuple[str, str]:
    """Return the words beside Send: the full ones, and a short form."""
    if count.is_full:
        return f"Context full: {_surplus(count)}", "Context full"
    share = share_words(count)
    return f"{counted(count.message, 'token')} · {share} of context", share


def hint_words(count: Count) -> str:
    """Return the same in whole sentences."""
    if count.is_full:
        return full_words(count)
    return (
        f"This message has {counted(count.message, 'token')}. With the conversation, "
        f"{count.prompt:,} of the {counted(count.context, 'token')} in the model’s context are "
        f"used.{without_words(count)}"
    )


def full_words(count: Count) -> str:
    """Return why a message cannot be sent; empty if it can."""
    if not count.is_full:
        return ""
    return (
        f"With this message the conversation has {'at least ' if count.is_least else ''}"
        f"{counted(count.prompt, 'token')}; the model’s "
        f"context holds {count.context:,}, the answer included: {_surplus(count)}."
        f"{without_words(count)} {_remedy(count).capitalize()}, or start a new conversation."
    )


def share_words(count: Count) -> str:
    """Return how full the context would be, and how full it is without the files."""
    after = f"{count.share * 100:.0f} %"
    if count.without_files is None or not count.context:
        return after
    return f"{count.without_files / count.context * 100:.0f} → {after}"


def without_words(count: Count) -> str:
    """Return how many tokens there are without the files, as a sentence; empty without files."""
    if count.without_files is None:
        return ""
    return f" Without the files it would be {count.without_files:,}."


def _surplus(count: Count) -> str:
    """Return by how many tokens the prompt is too long; at least one is left for the answer."""
    least = "at least " if count.is_least else ""
    return f"{least}{counted(count.prompt - count.context + 1, 'token')} too many"


def _remedy(count: Count) -> str:
    if count.without_files is None or count.without_files >= count.context:
        return "shorten the message"
    return "choose fewer pages, or remove files"
