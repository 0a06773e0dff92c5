"""Sentences of the window: verdicts, failures, draft tokens, text made visible.

Pure, without Qt; any thread.
"""

import re
import sys
from dataclasses import dataclass
from typing import Literal

from engine.errors import (
    EngineClosed,
    EngineError,
    InvalidRequest,
    MemoryShort,
    NoModel,
    PromptTooLong,
    QueueFull,
)
from engine.files.causes import os_cause
from engine.library.adapters import ADAPTED
from engine.stopping.record import StopKind
from engine.values.events import Finished, Speculation
from engine.values.figures import acceptance, draft_sources
from engine.values.request import SAMPLING_OPTIONS
from engine.values.tokens import TokenOrigin
from engine.values.verdict import (
    UNEXPECTED,
    UNRECORDED,
    WRITTEN,
    AnswerContext,
    VerdictText,
    interrupted,
    plain_cause,
    stopped_by_quit,
    verdict_text,
)
from engine.wording import as_sentence, counted, visible

THIS_COMPUTER = "this Mac" if sys.platform == "darwin" else "this computer"
CONTINUE_PAST = "Continue Past It"
TRACES_DELETED = "Answers stay, but their tokens can no longer be shown, saved or replayed."

# The names of a request's fields in the window.
_NAMES = {
    "max_tokens": "the longest answer",
    "thinking_budget": "the thinking budget",
    **{option.name: f"the {option.title.lower()}" for option in SAMPLING_OPTIONS},
    "stop_token_ids": "each stop token",
    "messages": "the conversation",
}
# Characters that turn the direction of the text around them, and so may show it as another one.
_DIRECTIONS = {
    code: visible(chr(code)) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
}
_JOINERS = "\u200c\u200d"
_CONTROL_PICTURES = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "␡"}
_MEANINGS = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'", "0": "\0"}
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
_ESCAPE = re.compile(
    r"\\(?P<name>.?)"
    r"(?P<digits>(?<=x)[0-9a-fA-F]{2}|(?<=u)[0-9a-fA-F]{4}|(?<=U)[0-9a-fA-F]{8}|)",
    re.DOTALL,
)
_BUNDLED = {
    "demo-model": "Fullstop Demo",
    "seeing-model": "Fullstop Demo with Pictures",
}
# Parts of a repository's name that other columns show, or that every chat model has.
_MODEL_FORMATS = re.compile(
    r"[-_.](?:mlx|\d+-?bits?|bf16|fp16|mxfp\d+(?:-q\d+)?|nvfp4|dwq|instruct|it|chat|hf)(?=[-_.]|$)",
    re.IGNORECASE,
)
_PARAMETERS = re.compile(r"(?<![^-_ .])[a-z]?\d+(?:\.\d+)?[bm](?![^-_ ])", re.IGNORECASE)
_NOT_ASCII = re.compile(r"[^\n -~]")
_LINE_ENDS = re.compile(r"\r\n|[\r\n\u2029]")
ORIGIN_NAMES = {
    TokenOrigin.SAMPLED: "",
    TokenOrigin.LOOKUP: "Draft: prompt lookup",
    TokenOrigin.PREDICTION: "Draft: predicted output",
    TokenOrigin.DRAFT: "Draft: draft model",
    TokenOrigin.HEAD: "Draft: MTP head",
    TokenOrigin.FORCED: "Forced",
    TokenOrigin.BUDGET: "Forced: end of thinking",
    TokenOrigin.CHOSEN: "Chosen: fork",
}
"""By a token's origin, its name in a table; empty for a token that the model drew alone."""
ORIGIN_DESCRIPTIONS = {
    TokenOrigin.SAMPLED: "",
    TokenOrigin.LOOKUP: "drafted by prompt lookup, and accepted by the model",
    TokenOrigin.PREDICTION: "drafted from the predicted output, and accepted by the model",
    TokenOrigin.DRAFT: "drafted by the draft model, and accepted",
    TokenOrigin.HEAD: "drafted by the model’s own head, and accepted",
    TokenOrigin.FORCED: "forced: the schema or the call allowed no other token",
    TokenOrigin.BUDGET: "forced: this ends thinking that used up its budget or repeated itself",
    TokenOrigin.CHOSEN: "chosen: here the answer leaves the one that it was forked from",
}
"""By a token's origin, what it means in words; empty for a token that the model drew alone."""
Tone = Literal["match", "done", "limit", "tool", "quiet", "fault", "busy"]
"""The tone of a state; the theme has a color for each tone."""
_LOOKS: dict[StopKind, tuple[str, Tone]] = {
    StopKind.EOS: ("check", "done"),
    StopKind.STOP_STRING: ("stop-match", "match"),
    StopKind.STOP_TOKEN: ("stop-match", "match"),
    StopKind.REPETITION: ("repeat", "limit"),
    StopKind.MAX_TOKENS: ("limit", "limit"),
    StopKind.CONTEXT_FULL: ("limit", "limit"),
    StopKind.MEMORY_FULL: ("limit", "limit"),
    StopKind.TOOL_CALL: ("tool", "tool"),
    StopKind.CANCELLED: ("cancelled", "quiet"),
    StopKind.ERROR: ("fault", "fault"),
}


class FileRefused(Exception):
    """A file cannot be used; the message has the file, the cause and the remedy, for the user."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why an answer ended, as the window shows it."""

    icon: str
    tone: Tone
    text: VerdictText


WRITTEN_VERDICT = Verdict("pencil", "quiet", WRITTEN)
UNRECORDED_VERDICT = Verdict("report", "quiet", UNRECORDED)


def display_name(name: str) -> str:
    """Return a model's name for people: ``mlx-community/Qwen3-4B-4bit`` is ``Qwen3 4B``."""
    model, plus, adapter = name.partition(ADAPTED)
    if plus:
        return f"{display_name(model)}{plus}{adapter.rpartition('/')[2]}"
    base = name.rpartition("/")[2]
    short = _MODEL_FORMATS.sub("", base)
    if name in _BUNDLED or (base == name == short and not _PARAMETERS.search(name)):
        return _BUNDLED.get(name, name)  # a folder that the user named
    title = _PARAMETERS.sub(lambda size: size[0].upper(), short.replace("_", "-"))
    title = title.replace("-", " ").replace("gpt oss", "gpt-oss")
    return title if title.startswith("gpt-oss") else title[:1].upper() + title[1:]


def interrupted_verdict(*, has_text: bool, is_quit: bool) -> Verdict:
    """Return the verdict on an answer that was not over when the program ended or was quit."""
    if is_quit:
        return Verdict("cancelled", "quiet", stopped_by_quit(has_text=has_text))
    return Verdict("fault", "fault", interrupted(has_text=has_text))


def verdict(finished: Finished, context: AnswerContext) -> Verdict:
    """Return the verdict on a finished answer."""
    return Verdict(*_LOOKS[finished.stop.kind], verdict_text(finished, context))


# The text of an exception is written for logs; only our own errors carry sentences.


def wrong_model(name: str) -> str:
    """Return why another model cannot go on from the tokens of an answer."""
    return (
        f"This answer is from {name}, and its tokens mean something else to other models. Choose "
        f"{name} for this conversation to fork it."
    )


def describe_error(error: BaseException) -> str:
    """Return why something failed, as whole sentences."""
    match error:
        case PromptTooLong():
            return (
                f"The prompt has {counted(error.prompt_tokens, 'token')}; the model’s "
                f"context holds {error.context_length:,}, the answer included: "
                f"{counted(error.prompt_tokens - error.context_length + 1, 'token')} too many. "
                "Shorten the message, or choose a model with a longer context."
            )
        case InvalidRequest():
            return as_sentence(_invalid(error))
        case NoModel() if str(error) not in ("", "no model is loaded"):
            return as_sentence(plain_cause(str(error)))
        case NoModel():
            return "No model is loaded. Load one and try again."
        case QueueFull():
            return "Too many requests are waiting. Try again in a moment."
        case MemoryShort():
            return (
                "There is not enough memory for this at the moment, because other programs or "
                "models use it. Close some of them, or try again later."
            )
        case EngineClosed() if str(error) not in ("", "the engine has been shut down"):
            return as_sentence(plain_cause(str(error)))
        case EngineClosed():
            return "The model’s engine has stopped. Try again."
        case EngineError():
            return as_sentence(plain_cause(str(error)))
        case OSError():
            return as_sentence(os_cause(error))
        case _:
            return UNEXPECTED


PICTURE_FIELD = "the picture "
"""What the name of a picture as the field of an error begins with."""


def _invalid(error: InvalidRequest) -> str:
    """Return why a request is invalid; a reason such as "must be …" gets its subject."""
    if not error.reason.startswith(("must ", "is ", "has ", "contains ")):
        return error.reason
    if error.field.startswith(PICTURE_FIELD):
        return f"{error.field} {error.reason}"
    field = error.field.partition("[")[0]
    return f"{_NAMES.get(field, f'the setting {field}')} {error.reason}"


def with_control_pictures(text: str) -> str:
    """Return the text with a picture for each control character except line feed and tab."""
    kept = {ord("\n"), ord("\t")}
    return text.translate({c: s for c, s in _CONTROL_PICTURES.items() if c not in kept})


def with_directions_shown(text: str) -> str:
    """Return a text from elsewhere with the characters that change its direction shown by name."""
    return text.translate(_DIRECTIONS)


def with_escapes_for_hidden(json_text: str) -> str:
    r"""Return JSON text with ``\u`` escapes for characters that are invisible or change direction.

    Line feeds, spaces and the joiners of scripts and emoji stay.
    """
    return _NOT_ASCII.sub(lambda match: _seen_or_escaped(match[0]), json_text)


def _seen_or_escaped(char: str) -> str:
    if char.isprintable() or char in _JOINERS:
        return char
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def lines_of(text: str) -> list[str]:
    """Return the lines of a plain text, as a text view splits them."""
    return _LINE_ENDS.split(text)


def unescaped(typed: str) -> str:
    r"""Return what text with escapes such as ``\n`` and ``\xHH`` means; raises ``ValueError``."""
    return _ESCAPE.sub(_character, typed)


def needs_escapes(text: str) -> bool:
    """Return whether a line of input cannot show the text as it is."""
    return any(not char.isprintable() for char in text)


def _character(escape: re.Match[str]) -> str:
    name, digits = escape["name"], escape["digits"]
    if name in _MEANINGS:
        return _MEANINGS[name]
    if not name:
        raise ValueError("The text ends with a single \\; write \\\\ for a backslash.")
    if name not in _HEX_DIGITS:
        raise ValueError(
            f"\\{name} is not an escape sequence; write \\\\{name} for a backslash and {name}."
        )
    if not digits:
        raise ValueError(f"\\{name} needs {_HEX_DIGITS[name]} hexadecimal digits after it.")
    code = int(digits, 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise ValueError(f"\\{name}{digits} is not a character.")
    return chr(code)


def draft_summary(speculation: Speculation, output_tokens: int) -> str:
    """Return in sentences what drafting did for an answer."""
    if not speculation.passes:
        return "No draft tokens: each token took a pass of its own."
    parts = []
    if speculation.guessed:
        passes = counted(speculation.passes, "pass", "passes")
        parts.append(
            f"Draft tokens were verified in {passes}: {acceptance(speculation)} were accepted."
        )
    if given := draft_sources(speculation):
        parts.append(f"They came from {given}.")
    if speculation.forced:
        were = "was" if speculation.forced == 1 else "were"
        forced = counted(speculation.forced, "token")
        parts.append(f"{forced} {were} forced: no other was allowed there.")
    predicted = speculation.prediction_accepted + speculation.prediction_rejected
    if predicted:
        parts.append(
            f"Of {counted(predicted, 'token')} of the request’s prediction, "
            f"{speculation.prediction_accepted:,} were accepted."
        )
    saved = speculation.accepted + speculation.forced
    if saved:
        of_all = counted(output_tokens, "token")
        parts.append(f"{saved:,} of {of_all} took no pass of their own.")
    return " ".join(parts)
