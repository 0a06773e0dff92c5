"""The commands and their options, each declared once; commands receive the options as values.

The parser, help, completion and the table of the options' page are made from ``COMMANDS``. Pure
values; knows neither argparse nor the work of any command.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from app import exits, paths
from app.exits import CommandError
from app.settings.serve import API_KEY_VARIABLE, DRAFT_HELP, MODEL_HELP, PLAIN_HELP, ServeOptions
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
    """What is asked."""

    prompt: str = declare(
        "",
        option="PROMPT",
        help="the prompt; text piped in comes before it; - reads the prompt itself",
    )


@dataclass(frozen=True)
class AskOptions(ModelOptions, Prompt):
    """One question, its model, and what becomes of the answer."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command.

    Attributes:
        name: Its word on the command line.
        help: What it does, as a phrase; also its description, unless that is given.
        work: The module and the function that get its options.
        options: The dataclass of its options; None where they have a grammar of their own.
        actions: The commands below it.
        description: The first sentence of its own help.
        examples: The end of its own help.
        alias_of: The command that this is another name for; empty for none.
    """

    name: str
    help: str
    work: str
    options: type | None = None
    actions: tuple["Command", ...] = ()
    description: str = ""
    examples: str = ""
    alias_of: str = ""


_ASK_EXAMPLES = r"""examples:
  fullstop ask "Count from 1 to 10, one number per line" --stop 6
  fullstop ask "Count from 1 to 10, one number per line" --stop '3\n4' --escapes
  fullstop ask "Output the whole alphabet from A to Z, then immediately output END" \
      --stop END --json
  fullstop ask "What does it say about fees?" --file contract.pdf
  git diff | fullstop ask - --system "Describe this change." --model ~/models/some-mlx-model

The answer goes to standard output; thinking and the reason go to standard error.
exit codes: 0 answered, 1 failed, 2 wrong usage, 130 cancelled with Ctrl-C
"""

_SERVE_EXAMPLES = f"""\
examples:
  fullstop serve
  fullstop serve --port 0
  {API_KEY_VARIABLE}=secret fullstop serve --host 0.0.0.0 --model ~/models/some-mlx-model
  fullstop serve --host 0.0.0.0 --api-key-file ~/fullstop-key
  mlx.launch --hostfile hosts.json -- "$(which fullstop)" serve --model /models/a-large-one

The last one shards a model across several machines; the first of them serves it.
Other apps then use the address that is printed, in whichever API they know.
Every option may also be a variable of the environment (--max-rows is FULLSTOP_MAX_ROWS) or a line
of the settings file (max_rows = 8). The command line takes precedence over the environment, and the
environment over the file.
exit codes: 0 ended by Ctrl-C or SIGTERM, 1 failed, 2 wrong usage
"""

_RUN_EXAMPLES = """\
examples:
  fullstop run demo-model
  fullstop run demo-model "Count from 1 to 10"
  fullstop run demo-model --file report.pdf
  fullstop run mlx-community/Qwen3-4B-Instruct-2507-4bit "Summarise" < report.txt

As ollama run, but a model that is not on this computer is not downloaded: fullstop pull does that.
Inside a chat, /help lists what can be typed.
exit codes: 0 answered or left, 1 failed, 2 wrong usage, 130 cancelled with Ctrl-C
"""

_LOADED_NOTE = """\
The window's own models are listed while its server is on.
exit codes: 0 done, 1 no server runs, or it refuses, 2 wrong usage
"""

_LAUNCH_EXAMPLES = """\
examples:
  fullstop launch claude
  fullstop launch codex --model mlx-community/Qwen3-Coder-30B-A3B-Instruct-4bit
  fullstop launch claude -- -p "What does this project do?"
  fullstop launch opencode --print

The server of the window, or of fullstop serve, is used if it runs; otherwise one is started, which
ends with the agent. Variables and options configure the agent; its own files are not changed.
exit codes: that of the agent; 1 not installed, no server or model; 2 wrong usage
"""

_MODELS_EXAMPLES = """\
examples:
  fullstop models
  fullstop models search
  fullstop models search qwen3 4bit --limit 50
  fullstop models download mlx-community/Qwen3-4B-Instruct-2507-4bit
  fullstop ask "Hello" --model mlx-community/Qwen3-4B-Instruct-2507-4bit
  fullstop models check mlx-community/Qwen3-4B-Instruct-2507-4bit
  fullstop models remove mlx-community/Qwen3-4B-Instruct-2507-4bit

search without words suggests models that fit this computer's memory. Only search and download
connect to the internet: to huggingface.co, or to the hub that HF_ENDPOINT names.
check takes a minute with a small model and some with a large one. It fails if an answer differs.
exit codes: 0 done, 1 failed, 2 wrong usage, 130 cancelled with Ctrl-C
"""

_REPLAY_EXAMPLES = """\
examples:
  fullstop ask "Count from 1 to 10, one number per line" --save-run run.json
  fullstop replay run.json --stop 7

exit codes: 0 played, 1 failed, 2 wrong usage
"""

_INSPECT_EXAMPLES = """\
examples:
  curl -i http://127.0.0.1:8080/v1/chat/completions -d @request.json > answer.txt
  fullstop inspect answer.txt --stop END
  pbpaste | fullstop inspect -

Reads answers of Messages, Chat Completions, Completions, Responses, /generate and Ollama, streamed
or not: a JSON body, server-sent events, NDJSON, the output of curl -i or -v, and HAR, in UTF-8.
exit codes: 0 nothing is wrong, 1 something is, 2 wrong usage, 3 a part was not read, 4 no answer
"""

_COMPLETION_EXAMPLES = """\
examples:
  echo 'source <(fullstop completion bash)' >> ~/.bashrc
  echo 'source <(fullstop completion zsh)' >> ~/.zshrc
  fullstop completion fish > ~/.config/fish/completions/fullstop.fish
"""

_LIST = Command(
    name="list",
    help="list the models on this computer",
    work="app.commands.models:show",
    options=ListOptions,
)
_SHOW = Command(
    name="show",
    help="describe a model on this computer: its size, context, folder, and whether it fits",
    work="app.commands.models:describe",
    options=ShowOptions,
)
_DOWNLOAD = Command(
    name="download",
    help="download a model, or resume a partial download, and verify it",
    work="app.commands.models:download",
    options=DownloadOptions,
)
_REMOVE = Command(
    name="remove",
    help="delete a downloaded model from this computer",
    work="app.commands.models:remove",
    options=RemoveOptions,
)


def _alias(name: str, action: Command) -> Command:
    """Return an action of ``models`` under the name that Ollama gives it."""
    meant = f"models {action.name}"
    return replace(
        action,
        name=name,
        help=f"the same as {meant}",
        description=f"{action.help[:1].upper()}{action.help[1:]}.",
        alias_of=meant,
    )


COMMANDS = (
    Command(
        name="ask",
        help="answer one prompt and say why the answer ended",
        work="app.commands.ask:run",
        options=AskOptions,
        examples=_ASK_EXAMPLES,
    ),
    Command(
        name="run",
        help="chat with a model in the terminal, or answer one prompt",
        work="app.commands.ask:run_model",
        options=RunOptions,
        examples=_RUN_EXAMPLES,
    ),
    Command(
        name="serve",
        help="serve the model to other apps over HTTP, without a window",
        work="app.commands.serve:run",
        options=ServeOptions,
        examples=_SERVE_EXAMPLES,
    ),
    Command(
        name="launch",
        help="start a coding agent (Claude Code, Codex, …) that uses your models",
        description="Start a coding agent that uses your models.",
        work="app.commands.launch:run",
        options=LaunchOptions,
        examples=_LAUNCH_EXAMPLES,
    ),
    Command(
        name="models",
        help="list, search, check, download and remove models",
        work="app.commands.models:show",
        options=ModelsOptions,
        examples=_MODELS_EXAMPLES,
        actions=(
            _LIST,
            _SHOW,
            Command(
                name="search",
                help="search the Hugging Face hub for MLX models",
                work="app.commands.models:search",
                options=SearchOptions,
            ),
            Command(
                name="check",
                help="compare a model's answers with mlx-lm's, and measure what drafts gain",
                work="app.commands.check:run",
                options=CheckOptions,
            ),
            _DOWNLOAD,
            _REMOVE,
        ),
    ),
    _alias("ls", _LIST),
    _alias("show", _SHOW),
    _alias("pull", _DOWNLOAD),
    _alias("rm", _REMOVE),
    Command(
        name="ps",
        help="list the models that running servers have loaded",
        work="app.commands.loaded:show",
        options=LoadedOptions,
        examples=_LOADED_NOTE,
    ),
    Command(
        name="stop",
        help="unload a model from the servers that run here, once its answers have ended",
        work="app.commands.loaded:unload",
        options=UnloadOptions,
        examples=_LOADED_NOTE,
    ),
    Command(
        name="replay",
        help="play a saved run again, with the same stops or with others",
        description="Replay a saved run through the real matcher; no model is needed.",
        work="app.commands.replay:run",
        options=ReplayOptions,
        examples=_REPLAY_EXAMPLES,
    ),
    Command(
        name="inspect",
        help="say what is wrong with an answer that any server gave",
        work="app.commands.inspect:run",
        options=InspectOptions,
        examples=_INSPECT_EXAMPLES,
    ),
    Command(
        name="probe",
        help="test how any server handles stops",
        work="app.commands.probe:run_arguments",
    ),
    Command(
        name="completion",
        help="print a script that completes commands, options and models in a shell",
        work="app.commands.completion:run",
        options=CompletionOptions,
        examples=_COMPLETION_EXAMPLES,
    ),
)
"""Every command but the window, which the program is without one."""
WINDOW = Command(name="window", help="", work="app.commands.window:run", options=ChatOptions)
