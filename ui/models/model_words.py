"""What the window says about models: sizes, fit, progress. Pure; no Qt. Any thread."""

import re
import time
from collections.abc import Sequence
from pathlib import Path

from engine import LoadProgress, ModelStatus
from engine.library.hub import DownloadProgress
from engine.library.hub_models import HubModel
from engine.library.local_models import FoundModel, Origin
from engine.library.memory_need import Fit, Memory, MemoryNeed
from engine.library.model_files import model_name
from engine.wording import as_sentence, counted, format_size
from ui.words import THIS_COMPUTER, display_name

ORIGINS = {
    Origin.BUNDLED: "Included",
    Origin.FOLDER: "Your folder",
    Origin.HUGGING_FACE: "Hugging Face",
    Origin.LM_STUDIO: "LM Studio",
}
_PHASES = {
    "checking": "Checking the files",
    "libraries": "Starting MLX",
    "tokenizer": "Reading the tokenizer",
    "weights": "Reading the weights",
}
# What the models that come with the program are for.
BUNDLED_PURPOSES = {
    "demo-model": "Counts, spells and explains what a stop sequence is. Get another model to chat.",
    "seeing-model": "Names colors and shapes in pictures, to try them out.",
}


def duration(seconds: float) -> str:
    """Return a duration as text."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    if seconds < 3600:
        return f"{round(seconds / 60)} min"
    return f"{int(seconds // 3600)} h {round(seconds % 3600 / 60)} min"


def passed(seconds: float) -> str:
    """Return how long something has taken, so that the words change every second."""
    minutes, remainder = divmod(int(seconds), 60)
    return f"{minutes} min {remainder} s" if minutes else f"{remainder} s"


def figures(bits: int | None, size_bytes: int | None) -> str:
    """Return quantization and size: ``4-bit · 2.3 GB``."""
    size = format_size(size_bytes) if size_bytes else ""
    return " · ".join(text for text in (f"{bits}-bit" if bits else "", size) if text)


def facts(model: FoundModel, draft: Path | None = None) -> list[tuple[str, str]]:
    """Return the facts about a model's folder, each with its name."""
    context = counted(model.context_length, "token") if model.context_length else ""
    return [
        ("Kind", "Adapter" if model.is_adapter else ""),
        ("Size", "" if model.is_partial else format_size(model.size_bytes)),
        ("Quantization", f"{model.bits}-bit" if model.bits else ""),
        ("Architecture", model.architecture),
        ("Context", context),
        ("Input", "Text and pictures" if model.can_see else ""),
        ("Draft Model", "" if draft is None else display_name(model_name(draft))),
        ("Source", ORIGINS[model.origin]),
    ]


def matches(name: str, terms: Sequence[str]) -> bool:
    """Return whether a model's name has all of these words in lower case."""
    folded = f"{name} {display_name(name)}".casefold()
    return all(word in folded for word in terms)


# Explanations of the facts, for their tooltips.
FACT_TIPS = {
    "Kind": "A small addition that is loaded over another model, its base",
    "Size": "The bytes of its weights",
    "Quantization": "The bits of each weight: fewer need less memory and lose some quality",
    "Architecture": "The kind of network, as its files name it",
    "Context": "The longest conversation that it can read, its answer included",
    "Draft Model": "A smaller model that proposes tokens, so that answers come faster",
    "Draft Head": "A part of the model that proposes tokens, so that answers come faster",
    "Chat Template": "The format in which the messages of a chat are given to the model",
    "Source": "Where its files come from",
    "Downloads": "In the last 30 days, from Hugging Face",
    "Updated": "The day of its last change on Hugging Face",
    "Access": "Its terms have to be accepted before it can be downloaded",
}


def short_reason(message: str) -> str:
    """Return the first clause of a failure's message: the cause, without a file's folders."""
    cause = re.split(r"[:;.]\s|\s\(", message, maxsplit=1)[0]
    return as_sentence(re.sub(r"^(the file )\S+/", r"\1", cause, flags=re.IGNORECASE))


_CODE = re.compile(r"(```.*?(?:```|\Z)|`[^`\n]+`)", re.DOTALL)
# None reads past another beginning: a card of many unclosed parts would take minutes.
_PICTURES = re.compile(r"\[!\[[^\[\]]*\]\([^)\[]*\)\]\([^)\[]*\)|!\[[^\[\]]*\]\([^)\[]*\)")
_MARKUP = re.compile(
    r"<!--(?:(?!<!--).)*?-->|<(style|script)\b(?:(?!<\1).)*?</\1>|</?[a-zA-Z][^<>]*>", re.DOTALL
)
_EMPTY_LINK = re.compile(r"\[([^\[\]]*)\]\(\s*\)")


def readable_card(text: str) -> str:
    """Return a model card without pictures, badges and HTML; code stays as it is."""
    parts = _CODE.split(text)
    for at in range(0, len(parts), 2):
        plain = re.sub(r"<br\s*/?>", "  \n", parts[at])
        plain = _MARKUP.sub("", _PICTURES.sub("", plain))
        # Below the name of the model, which is the title.
        parts[at] = re.sub(r"^(#{1,5} )", r"#\1", plain, flags=re.MULTILINE)
    # Indented rests of HTML would be code, and a line of dashes below text a heading.
    card = _EMPTY_LINK.sub(r"\1", "".join(parts))
    return re.sub(r"\n(?:[ \t]*\n){2,}", "\n\n", card).strip()


def row_facts(found: FoundModel, used_at: float) -> str:
    """Return the differences from models of its name, and its last use, in one line."""
    owner, _, _ = found.name.rpartition("/")
    text = [figures(found.bits, found.size_bytes), owner or ORIGINS[found.origin]]
    if found.is_adapter:
        text = ["Adapter", figures(None, found.size_bytes), ORIGINS[found.origin]]
    if used_at:
        text.append(used(used_at))
    return " · ".join(filter(None, text))


def choice_facts(found: FoundModel) -> str:
    """Return size and context length of a model that can be chosen, in one line."""
    owner, _, _ = found.name.rpartition("/")
    context = f"{counted(found.context_length, 'token')} of context" if found.context_length else ""
    size = figures(found.bits, found.size_bytes)
    return " · ".join(filter(None, ("Adapter" if found.is_adapter else "", size, context, owner)))


def memory_text(model: ModelStatus) -> str:
    """Return memory and activity of a loaded model, in one line."""
    info, text, now = model.info, [], time.time()
    if info is not None:
        weights = info.weights_bytes - model.shared_bytes
        beside = " beside its base" if model.shared_bytes else ""
        text.append(f"{format_size(weights)} of weights{beside}")
        caches = model.memory_bytes - weights
        if caches > 0:
            text.append(f"{format_size(caches)} of caches")
    answers = model.running + model.waiting
    if answers:
        text.append("answering" if answers == 1 else f"{counted(answers, 'answer')} under way")
        return " · ".join(text)
    if model.used_at is not None:
        text.append(f"idle for {duration(max(0.0, now - model.used_at))}")
    if model.unloads_at is not None:
        text.append(f"unloaded in {duration(max(0.0, model.unloads_at - now))}")
    return " · ".join(text)


def used(at: float) -> str:
    """Return when a model was used last."""
    days = (time.time() - at) / 86_400
    if days < 1:
        return "used today"
    return "used yesterday" if days < 2 else f"used {counted(int(days), 'day')} ago"


def newer_text(newer: HubModel) -> str:
    """Return the sentence that the hub has a newer revision of a model."""
    day = "" if newer.updated is None else f" of {newer.updated.isoformat()}"
    size = "" if newer.size_bytes is None else f", {format_size(newer.size_bytes)} in all"
    return f"Update available: a newer revision{day}{size}."


def deletion_question(name: str, freed_bytes: int) -> str:
    """Return the question that the user is asked before a model is deleted."""
    freed = format_size(freed_bytes)
    return f"Delete “{name}”? This frees {freed}. You can download it again later."


def fit_text(need: MemoryNeed | None, fit: Fit, memory: Memory) -> str:
    """Return a warning; empty if the model fits."""
    if need is None or fit is Fit.FITS:
        return ""
    context = counted(need.context, "token")
    target = f"It needs about {format_size(need.total)} with {context} of context"
    if fit is Fit.TOO_LARGE:
        return (
            f"{target}; at most {format_size(memory.usable)} of {THIS_COMPUTER}’s memory can be "
            "used for models."
        )
    return f"{target}; {format_size(memory.available)} are free now. Close other programs first."


def loading_text(progress: LoadProgress | None, loading_s: float, waits_for: int) -> str:
    """Return the present step of loading, with its progress."""
    if progress is None:
        answers = "an answer" if waits_for == 1 else counted(waits_for, "answer")
        return f"Waiting for {answers} to end" if waits_for else "Starting…"
    text = _PHASES[progress.phase]
    if progress.phase == "weights" and progress.total_bytes:
        text += f", {transferred(progress.done_bytes, progress.total_bytes)}"
    return f"{text} · {passed(loading_s)}" if loading_s >= 1 else text


def download_text(progress: DownloadProgress, bytes_per_s: float, left_s: float | None) -> str:
    """Return the progress of a download as text; a rate of 0 is not known."""
    if progress.phase == "asking":
        return "Contacting Hugging Face…"
    if progress.phase == "verifying":
        return f"Verifying… {percent(progress.done_bytes, progress.total_bytes)}%"
    if 0 < progress.total_bytes <= progress.done_bytes:
        return "Verifying…"
    text = [transferred(progress.done_bytes, progress.total_bytes)]
    if bytes_per_s:
        text.append(f"{format_size(bytes_per_s)}/s")
    if left_s is not None:
        text.append(f"{duration(left_s)} left")
    return " · ".join(text)


def arrived_percent(progress: DownloadProgress) -> int:
    """Return the share of the bytes that have arrived: all of them while they are verified."""
    is_verifying = progress.phase == "verifying"
    return 100 if is_verifying else percent(progress.done_bytes, progress.total_bytes)


def paused_text(progress: DownloadProgress) -> str:
    """Return how far a paused download has come."""
    share = arrived_percent(progress)
    if share == 100:
        return "Paused before it was verified"
    return (
        f"Paused · {transferred(progress.done_bytes, progress.total_bytes)}" if share else "Paused"
    )


def transferred(done: int, total: int) -> str:
    """Return both sizes, the unit once where it is the same: ``1.2 of 2.3 GB``."""
    whole = format_size(total)
    unit = " " + whole.split()[-1]
    return f"{format_size(done).removesuffix(unit)} of {whole}"


class TransferRate:
    """The average speed of a download since its transfer began."""

    def __init__(self) -> None:
        self._began: tuple[float, int] | None = None

    def text(self, progress: DownloadProgress) -> str:
        """Return the progress as text, with speed and time left once they are known."""
        if progress.phase != "fetching":
            return download_text(progress, 0.0, None)
        if self._began is None or progress.done_bytes < self._began[1]:
            self._began = time.monotonic(), progress.done_bytes
        passed_s = time.monotonic() - self._began[0]
        arrived = progress.done_bytes - self._began[1]
        if passed_s < 1 or not arrived:
            return download_text(progress, 0.0, None)
        rate = arrived / passed_s
        return download_text(progress, rate, (progress.total_bytes - progress.done_bytes) / rate)


def percent(done: int, total: int) -> int:
    """Return the share that is done, in whole percent."""
    return min(100, 100 * done // total) if total else 0
