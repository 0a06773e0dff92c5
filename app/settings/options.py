"""The options of each command, declared once; commands receive them as values."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from app import exits, paths
from app.exits import CommandError
from app.settings.serve import DRAFT_HELP, MODEL_HELP, PLAIN_HELP
from engine import GenerationRequest, Message, Sampling, StopOptions, StopRules, StopScope
from ui.preferences import NewConversation, declare
from ui.records.conversations import Conversation, StopEntry

LOCAL_MODEL, REMOTE_MODEL = "MODEL", "OWNER/NAME"
"""Placeholders in help for a model on this computer and on the hub; completion knows both."""

# The same as in ``engine.library.hub_models``; a test compares them.
USUAL_RESULTS, MAX_RESULTS = 20, 200

# The same as in ``app.agents``; a test compares them.
Agent = Literal[
    "claude",
    "codex",
    "opencode",
    "aider",
    "goose",
    "qwen",
    "copilot",
    "vibe",
    "kilo",
    "cline",
    "openhands",
]
AGENTS: tuple[str, ...] = get_args(Agent)
Shell = Literal["bash", "zsh", "fish"]

_ONE_OBJECT = "print one JSON object"


def check_guessing(draft: Path | None, *, is_plain: bool) -> None:
    """Raise ``CommandError`` if both a draft model and plain decoding are requested."""
    if draft is not None and is_plain:
        raise CommandError(
            "--draft-model guesses tokens, and --plain-decoding checks no guesses; leave one of "
            "them out",
            exits.USAGE,
        )


def _stops(text: str) -> tuple[str, ...]:
    return declare((), option="--stop", metavar="S", help=text)


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """How answers are generated: as a new conversation, with stops and a seed."""

    stops: tuple[str, ...] = _stops(
        "end the answer before this text, taken exactly as given; repeatable"
    )
    conversation: NewConversation = field(default_factory=NewConversation)
    seed: int | None = declare(
        None, minimum=0, maximum=2**63 - 1, metavar="N", help="make random draws repeatable"
    )
    stop_options: StopOptions = field(default_factory=StopOptions)

    def request(self, turns: tuple[Message, ...]) -> GenerationRequest:
        settings = self.conversation
        system = (Message("system", settings.system_prompt),) if settings.system_prompt else ()
        return GenerationRequest(
            messages=system + turns,
            sampling=Sampling(temperature=settings.temperature, seed=self.seed),
            stops=StopRules.of(*self.stops).with_options(self.stop_options),
            max_tokens=settings.max_tokens,
            thinking=settings.is_thinking,
            thinking_budget=settings.thinking_budget,
        )

    def new_conversation(self) -> Conversation:
        """Return an empty conversation that answers like this."""
        settings = self.conversation.settings()
        return Conversation(
            settings=replace(
                settings,
                seed=self.seed,
                # In a conversation each stop has a scope of its own.
                stop_options=replace(self.stop_options, scope=StopScope.TEXT),
            ),
            stops=[StopEntry.of(stop).within(self.stop_options.scope) for stop in self.stops],
        )


@dataclass(frozen=True)
class ModelOptions:
    """What generates an answer, and how.

    Attributes:
        model: Folder of the model.
        draft: Folder of the draft model. None for none; in the window, for the one chosen there.
        is_plain: Whether to compute each token by itself, without guesses.
        answer: How the answer is generated.
    """

    model: Path = declare(
        paths.demo_model(), option="--model", metavar=LOCAL_MODEL, help=MODEL_HELP
    )
    draft: Path | None = declare(None, option="--draft-model", metavar=LOCAL_MODEL, help=DRAFT_HELP)
    is_plain: bool = declare(False, option="--plain-decoding", help=PLAIN_HELP)
    answer: AnswerOptions = field(default_factory=AnswerOptions)

    def __post_init__(self) -> None:
        check_guessing(self.draft, is_plain=self.is_plain)


@dataclass(frozen=True, kw_only=True)
class OpenedRun:
    """A saved run that the window shows."""

    opened: Path | None = declare(
        None,
        option="--open",
        metavar="FILE",
        help="show a saved run in the Stop Inspector; fullstop FILE does the same",
    )


@dataclass(frozen=True, kw_only=True)
class Files:
    """Files that go with the first question."""

    files: tuple[str, ...] = declare(
        (),
        option="--file",
        metavar="FILE",
        help="a text, PDF or Word file that comes before the prompt; repeatable",
    )


@dataclass(frozen=True)
class ChatOptions(ModelOptions, OpenedRun, Files):
    """A conversation, in the window or in the terminal."""

    @property
    def attached(self) -> list[Path]:
        """The files by their full paths: another process of ours may have to read them."""
        return [Path(file).expanduser().absolute() for file in self.files]


@dataclass(frozen=True, kw_only=True)
class Prompt(Files):
    """The prompt."""

    prompt: str = declare(
        "",
        option="PROMPT",
        help="the prompt; text piped in comes before it; - reads the prompt itself",
    )


@dataclass(frozen=True)
class AskOptions(ModelOptions, Prompt):
    """One question, its model, and the form of the answer."""

    is_json: bool = declare(
        False, option="--json", help="print one JSON object instead of streaming text"
    )
    saved_run: Path | None = declare(
        None,
        option="--save-run",
        metavar="FILE",
        help="save the run, so that fullstop replay can try other stops on it",
    )


@dataclass(frozen=True, kw_only=True)
class RunOptions(ModelOptions, Files):
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


@dataclass(frozen=True, slots=True)
class LoadedOptions:
    """The models that running servers have loaded."""

    is_json: bool = declare(False, option="--json", help=_ONE_OBJECT)


@dataclass(frozen=True, slots=True)
class UnloadOptions:
    """A model that running servers shall unload."""

    model: str = declare("", option=LOCAL_MODEL, help="its name, as fullstop ps lists it")


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The replay of a saved run; its own stops apply unless ``stops`` are given, or none shall."""

    file: Path = declare(Path(), option="FILE", help="a run saved by --save-run")
    stops: tuple[str, ...] = _stops(
        "stop before this text, in place of the run's own stops; repeatable"
    )
    drops_stops: bool = declare(False, option="--no-stop", help="play it without any stop strings")
    is_json: bool = declare(False, option="--json", help=_ONE_OBJECT)

    def __post_init__(self) -> None:
        if self.drops_stops and self.stops:
            raise CommandError("use either --stop or --no-stop", exits.USAGE)


@dataclass(frozen=True, slots=True)
class InspectOptions:
    """An answer of any server, to be judged."""

    file: str = declare(
        "", option="FILE", help="the answer, saved or pasted; - reads standard input"
    )
    stops: tuple[str, ...] = _stops("a stop of the request, taken exactly as given; repeatable")
    is_json: bool = declare(False, option="--json", help=_ONE_OBJECT)


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """A coding agent, and the model and server that it uses."""

    agent: Agent = declare("claude", option="AGENT", help=f"the agent: {', '.join(AGENTS)}")
    model: str | None = declare(
        None,
        metavar=LOCAL_MODEL,
        help="model to use, by folder or name (default: the one that the server uses)",
    )
    url: str | None = declare(
        None, metavar="URL", help="server to use (default: a running one, or a new one)"
    )
    is_printed: bool = declare(
        False, option="--print", help="print the equivalent shell commands, and start nothing"
    )
    force: bool = declare(
        False, option="--anyway", help="start the agent even if the model is too small for it"
    )
    arguments: tuple[str, ...] = declare(
        (), option="-- ARGS", help="arguments for the agent itself"
    )


@dataclass(frozen=True, slots=True)
class ModelsOptions:
    """The list of models on this computer; ``list`` adds options to it."""

    is_json: bool = declare(False, option="--json", help=_ONE_OBJECT)


@dataclass(frozen=True, slots=True)
class ListOptions(ModelsOptions):
    """The list of models on this computer."""

    names_only: bool = declare(False, option="--names", help="print names only")


@dataclass(frozen=True, slots=True)
class ShowOptions:
    """A model on this computer, to be described."""

    name: str = declare("", option=LOCAL_MODEL, help="its name, as fullstop models lists it")
    is_json: bool = declare(False, option="--json", help=_ONE_OBJECT)


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """A model on this computer, whose answers are compared and measured."""

    model: Path = declare(
        Path(),
        option=LOCAL_MODEL,
        metavar=LOCAL_MODEL,
        help="the model, by folder or name, as fullstop models lists it",
    )
    draft: Path | None = declare(None, option="--draft-model", metavar=LOCAL_MODEL, help=DRAFT_HELP)
    tokens: int = declare(
        200,
        minimum=16,
        maximum=10_000,
        metavar="N",
        help="compare and measure answers of N tokens (default 200)",
    )
    is_json: bool = declare(False, option="--json", help=_ONE_OBJECT)


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """A search of the hub; suggestions without any."""

    query: tuple[str, ...] = declare(
        (),
        option="WORDS",
        help="parts of the name; without any, models that fit this computer are suggested",
    )
    limit: int = declare(
        USUAL_RESULTS,
        minimum=1,
        maximum=MAX_RESULTS,
        metavar="N",
        help=f"show N models at most (default {USUAL_RESULTS}, most {MAX_RESULTS})",
    )
    is_json: bool = declare(False, option="--json", help=_ONE_OBJECT)


@dataclass(frozen=True, slots=True)
class DownloadOptions:
    """A model to be downloaded."""

    name: str = declare(
        "", option=REMOTE_MODEL, help="the model on the hub, or the address of its page"
    )
    is_json: bool = declare(False, option="--json", help=_ONE_OBJECT)


@dataclass(frozen=True, slots=True)
class RemoveOptions:
    """A model to be deleted."""

    name: str = declare("", option=LOCAL_MODEL, help="its name, as fullstop models lists it")
    is_sure: bool = declare(False, option="--yes", help="do not ask for confirmation")
    is_json: bool = declare(False, option="--json", help=_ONE_OBJECT)


@dataclass(frozen=True, slots=True)
class CompletionOptions:
    """A shell whose script is printed."""

    shell: Shell = declare("bash", option="SHELL", help=", ".join(get_args(Shell)))
