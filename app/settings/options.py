"""The declared options of a conversation and its model, and the type of a command."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from app import exits, paths
from app.arguments import Argument, argument
from app.exits import CommandError
from app.settings.repetition import OFF, REPETITION_HELP, repetition_detection
from app.settings.serve import DRAFT_HELP, MODEL_HELP, PLAIN_HELP, TEMPLATE_HELP
from engine.files.causes import os_cause
from engine.files.safe_files import read_bounded
from engine.library.adapters import is_adapter
from engine.stopping.rules import StopOptions, StopScope
from engine.values.request import GenerationRequest, LimitSource, Message, Sampling
from ui.preferences import Declaration, NewConversation, declare
from ui.records.conversations import Conversation
from ui.records.stop_entries import StopEntry, rules_of
from ui.records.stop_files import MAX_BYTES, refusal, stops_from_file

LOCAL_MODEL, REMOTE_MODEL = "MODEL", "OWNER/NAME"
"""Placeholders in help for a model on this computer and on the hub; completion knows both."""
ADAPTER_HELP = (
    "folder of a LoRA adapter of mlx_lm.lora; --model is then its base (default: the model that "
    "its adapter_config.json names)"
)
_FILE_HELP = (
    "a picture, or a text, PDF or Word file, that comes before the prompt; repeatable. Of a file "
    "that does not fit, the passages that the prompt is about are read"
)
LITERAL_PREFIX = "="
"""Marks the value of ``--stop`` and ``--system``, which argparse must not interpret."""


def check_guessing(draft: Path | None, *, is_plain: bool) -> None:
    """Raise ``CommandError`` if both a draft model and plain decoding are requested."""
    if draft is not None and is_plain:
        raise CommandError(
            "--draft-model guesses tokens, and --plain-decoding checks no guesses; leave one of "
            "them out",
            exits.USAGE,
        )


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """How answers are generated: as a new conversation, with stops and a seed."""

    stops: tuple[str, ...] = declare(
        (),
        option="--stop",
        metavar="S",
        help="end the answer before this text, taken exactly as given; repeatable",
    )
    conversation: NewConversation = field(default_factory=NewConversation)
    seed: int | None = declare(
        None, minimum=0, maximum=2**63 - 1, metavar="N", help="make random draws repeatable"
    )
    stop_options: StopOptions = field(default_factory=StopOptions)
    stop_files: tuple[str, ...] = declare(
        (),
        option="--stop-file",
        metavar="FILE",
        help="end the answer before the stops of an exported list (.json), or of lines (.txt); "
        "repeatable",
    )

    def request(self, turns: tuple[Message, ...]) -> GenerationRequest:
        settings = self.conversation
        system = (Message("system", settings.system_prompt),) if settings.system_prompt else ()
        return GenerationRequest(
            messages=system + turns,
            sampling=Sampling(temperature=settings.temperature, seed=self.seed),
            stops=rules_of(self.stop_entries()).with_options(self.stop_options),
            max_tokens=settings.max_tokens,
            max_tokens_from=LimitSource.COMMAND,
            thinking=settings.is_thinking,
            thinking_budget=settings.thinking_budget,
            thinking_budget_from=LimitSource.COMMAND,
        )

    def new_conversation(self) -> Conversation:
        settings = self.conversation.settings()
        return Conversation(
            settings=replace(
                settings,
                seed=self.seed,
                # In a conversation each stop has a scope of its own.
                stop_options=replace(self.stop_options, scope=StopScope.TEXT),
            ),
            stops=[
                entry if entry.stop.scope else entry.within(self.stop_options.scope)
                for entry in self.stop_entries()
            ],
        )

    def stop_entries(self) -> list[StopEntry]:
        rows = [row for file in self.stop_files for row in _read_stop_file(file)]
        rows += map(StopEntry.of, self.stops)
        if problem := refusal(rows):
            raise CommandError(f"--stop-file: {problem}", exits.USAGE)
        return rows


def _read_stop_file(name: str) -> list[StopEntry]:
    path = paths.typed_path(name)
    try:
        return stops_from_file(path.name, read_bounded(path, MAX_BYTES).decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise CommandError(f"{path} is not UTF-8 text", exits.USAGE) from None
    except OSError as error:
        raise CommandError(f"{path}: {os_cause(error)}", exits.USAGE) from error
    except ValueError as error:
        raise CommandError(f"{path}: {error}", exits.USAGE) from error


@dataclass(frozen=True)
class ModelOptions:
    """The model that answers, and how it decodes; the window's default is the last used model."""

    model: Path | None = declare(None, option="--model", metavar=LOCAL_MODEL, help=MODEL_HELP)
    draft: Path | None = declare(None, option="--draft-model", metavar=LOCAL_MODEL, help=DRAFT_HELP)
    template: Path | None = declare(
        None, option="--chat-template", metavar="FILE", help=TEMPLATE_HELP
    )
    adapter: Path | None = declare(None, option="--adapter", metavar="FOLDER", help=ADAPTER_HELP)
    is_plain: bool = declare(False, option="--plain-decoding", help=PLAIN_HELP)
    answer: AnswerOptions = field(default_factory=AnswerOptions)

    def __post_init__(self) -> None:
        check_guessing(self.draft, is_plain=self.is_plain)
        if self.adapter is not None and not is_adapter(self.adapter):
            raise CommandError(
                f"--adapter: {self.adapter} has no adapter_config.json, which mlx_lm.lora writes",
                exits.USAGE,
            )


@dataclass(frozen=True)
class ChatOptions(ModelOptions):
    """A conversation, in the window or in the terminal."""

    opened: Path | None = declare(
        None,
        option="--open",
        metavar="FILE",
        help="show a saved run in the Stop Inspector; fullstop FILE does the same",
    )
    files: tuple[str, ...] = declare((), option="--file", metavar="FILE", help=_FILE_HELP)

    @property
    def attached(self) -> list[Path]:
        """The files by their full paths: another process of ours may have to read them."""
        return [paths.typed_path(file).absolute() for file in self.files]


@dataclass(frozen=True)
class AskOptions(ModelOptions):
    """One question, its model, and the form of the answer."""

    prompt: str | None = declare(
        None,
        option="PROMPT",
        help="the prompt; text piped in comes before it; - reads the prompt itself",
    )
    files: tuple[str, ...] = declare((), option="--file", metavar="FILE", help=_FILE_HELP)
    is_json: bool = declare(
        False, option="--json", help="print one JSON object instead of streaming text"
    )
    repetition_detection: str = declare(
        OFF, option="--repetition-detection", metavar="FIGURES", help=REPETITION_HELP
    )
    saved_run: Path | None = declare(
        None,
        option="--save-run",
        metavar="FILE",
        help="save the run, so that fullstop replay can try other stops on it",
    )
    from_run: Path | None = declare(
        None,
        option="--from-run",
        metavar="FILE",
        help="in place of PROMPT: go on from a token of a saved run, with --at",
    )
    at: int | None = declare(
        None,
        minimum=1,
        metavar="N",
        help="the token of the saved run that is replaced, numbered from 1",
    )
    chosen_text: str | None = declare(
        None, option="--with", metavar="TEXT", help="the text in its place"
    )
    chosen_token: int | None = declare(
        None, option="--token", minimum=0, metavar="ID", help="the token id in its place"
    )
    is_end: bool = declare(False, option="--end", help="end the answer there; no model is needed")
    times: int | None = declare(
        None,
        minimum=2,
        maximum=256,
        metavar="N",
        help="answer N times, with the seeds 1 to N (or from --seed on), and count the ends",
    )
    versus_stops: tuple[str, ...] = declare(
        (),
        option="--versus-stop",
        metavar="S",
        help="with --times: answer the same seeds with this stop as well, in place of those of "
        "--stop; repeatable",
    )
    versus_temperature: float | None = declare(
        None,
        minimum=0,
        maximum=2,
        metavar="T",
        help="with --times: answer the same seeds at this temperature as well",
    )

    @property
    def choices(self) -> int:
        """How many choices there are for the replaced token of a saved run."""
        return sum((self.chosen_text is not None, self.chosen_token is not None, self.is_end))

    def request(self, turn: Message) -> GenerationRequest:
        detection = repetition_detection(self.repetition_detection)
        request = self.answer.request((turn,))
        return replace(request, stops=replace(request.stops, repetition=detection))


@dataclass(frozen=True)
class RunOptions(ModelOptions):
    """A chat with a model in the terminal, or one answer if there is a prompt."""

    model: Path = declare(
        Path(),
        option=LOCAL_MODEL,
        metavar=LOCAL_MODEL,
        help="the model, by folder or name, as fullstop ls lists it",
    )
    prompt: tuple[str, ...] = declare(
        (),
        option="PROMPT",
        help="what to answer; without it, and with nothing piped in, a chat begins",
    )
    files: tuple[str, ...] = declare((), option="--file", metavar="FILE", help=_FILE_HELP)


def stop_arguments(text: str) -> tuple[Argument, ...]:
    """Return ``--stop`` and ``--escapes``."""
    return (
        argument(
            "--stop",
            dest="stops",
            type=strip_literal,
            action="append",
            default=argparse.SUPPRESS,
            metavar="S",
            help=text,
        ),
        argument(
            "--escapes",
            default=argparse.SUPPRESS,
            action="store_true",
            help=r"read \n, \t, \\, \xHH and \uHHHH in --stop as the characters they mean",
        ),
    )


def strip_literal(marked: str) -> str:
    """Return a value without the mark that ``app.cli`` has put before it."""
    return marked.removeprefix(LITERAL_PREFIX)


def absolute_path(typed: str) -> Path:
    """Return a path for another process of ours, too."""
    return paths.typed_path(typed).absolute()


def number_parser(kind: type[int] | type[float], limits: Declaration) -> Callable[[str], float]:
    """Return a parser of numbers within declared limits."""
    low, high = limits.minimum, limits.maximum
    lowest = "greater than" if limits.exclusive_minimum else "at least"
    if low is not None and high is not None and not limits.exclusive_minimum:
        allowed = f"between {low:.17g} and {high:.17g}"
    else:
        allowed = " and ".join(
            f"{bound} {limit:.17g}"
            for bound, limit in ((lowest, low), ("at most", high))
            if limit is not None
        )

    def parse_number(typed: str) -> float:
        try:
            value = kind(typed)
        except ValueError:
            name = "a whole number" if kind is int else "a number"
            raise argparse.ArgumentTypeError(f"{typed!r} is not {name}") from None
        # Comparisons with NaN are false.
        is_valid = (low is None or value >= low) and (high is None or value <= high)
        if not is_valid or (limits.exclusive_minimum and value == low):
            raise argparse.ArgumentTypeError(f"{typed} is not {allowed}")
        return value

    return parse_number


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command; ``work`` is the module and the function that get its options."""

    name: str
    help: str
    work: str
    options: type | None = None  # a dataclass of declared options
    arguments: tuple[Argument, ...] = ()  # those of a command without such options
    actions: tuple["Command", ...] = ()
    description: str = ""  # empty for the help
    examples: str = ""
    alias_of: str = ""
