"""The table of commands, of which the parser, completion and the page of options are made."""

import argparse
from dataclasses import replace

from app import paths
from app.agents.programs import AGENTS
from app.arguments import argument
from app.settings import probe_options
from app.settings.options import (
    LOCAL_MODEL,
    REMOTE_MODEL,
    AskOptions,
    ChatOptions,
    Command,
    RunOptions,
    absolute_path,
    number_parser,
    stop_arguments,
)
from app.settings.repetition import REPETITION_HELP
from app.settings.serve import DRAFT_HELP, TEMPLATE_HELP, ServeOptions
from ui.preferences import API_KEY_VARIABLE, Declaration

_SHELLS = ("bash", "zsh", "fish")
_ASK_EXAMPLES = r"""examples:
  fullstop ask "Count from 1 to 10, one number per line" --stop 6
  fullstop ask "Count from 1 to 10, one number per line" --stop '3\n4' --escapes
  fullstop ask "Output the whole alphabet from A to Z, then immediately output END" \
      --stop END --json
  fullstop ask "What does it say about fees?" --file contract.pdf
  git diff | fullstop ask - --system "Describe this change." --model ~/models/some-mlx-model
  fullstop ask "Count from 1 to 10, one number per line" --save-run run.json
  fullstop ask --from-run run.json --at 7 --with 7
  fullstop ask "Write a haiku" --times 20 --temperature 1 --stop END --versus-stop "\n\n" --escapes

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


_JSON = argument(
    "--json",
    dest="is_json",
    action="store_true",
    default=argparse.SUPPRESS,
    help="print one JSON object",
)
_LOCAL_NAME = argument("name", metavar=LOCAL_MODEL, help="its name, as fullstop models lists it")

_LIST = Command(
    name="list",
    help="list the models on this computer",
    work="app.commands.models:show",
    arguments=(_JSON, argument("--names", action="store_true", help="print names only")),
)
_SHOW = Command(
    name="show",
    help="describe a model on this computer: its size, context, folder, and whether it fits",
    work="app.commands.models:describe",
    arguments=(_LOCAL_NAME, _JSON),
)
_DOWNLOAD = Command(
    name="download",
    help="download a model, or resume a partial download, and verify it",
    work="app.commands.models:download",
    arguments=(
        argument(
            "name", metavar=REMOTE_MODEL, help="the model on the hub, or the address of its page"
        ),
        _JSON,
    ),
)
_REMOVE = Command(
    name="remove",
    help="delete a downloaded model from this computer",
    work="app.commands.models:remove",
    arguments=(
        _LOCAL_NAME,
        _JSON,
        argument("--yes", action="store_true", help="do not ask for confirmation"),
    ),
)
_SEARCH = Command(
    name="search",
    help="search the Hugging Face hub for MLX models",
    work="app.commands.models:search",
    arguments=(
        argument(
            "query",
            metavar="WORDS",
            nargs="*",
            help="parts of the name; without any, models that fit this computer are suggested",
        ),
        argument(
            "--limit",
            type=number_parser(int, Declaration(minimum=1, maximum=200)),
            metavar="N",
            help="show N models at most (default 20, most 200)",
        ),
        _JSON,
    ),
)
_CHECK = Command(
    name="check",
    help="compare a model's answers with mlx-lm's, and measure what drafts gain",
    work="app.commands.check:run",
    arguments=(
        argument(
            "model",
            type=paths.model_folder,
            metavar=LOCAL_MODEL,
            help="the model, by folder or name, as fullstop models lists it",
        ),
        argument(
            "--draft-model",
            dest="draft",
            type=paths.model_folder,
            metavar=LOCAL_MODEL,
            help=DRAFT_HELP,
        ),
        argument(
            "--chat-template",
            dest="template",
            type=absolute_path,
            metavar="FILE",
            help=TEMPLATE_HELP,
        ),
        argument(
            "--tokens",
            type=number_parser(int, Declaration(minimum=16, maximum=10_000)),
            default=200,
            metavar="N",
            help="compare and measure answers of N tokens (default 200)",
        ),
        _JSON,
    ),
)
_LAUNCH = Command(
    name="launch",
    help="start a coding agent (Claude Code, Codex, …) that uses your models",
    description="Start a coding agent that uses your models.",
    work="app.commands.launch:run",
    arguments=(
        argument(
            "agent",
            metavar="AGENT",
            choices=tuple(AGENTS),
            help=f"the agent: {', '.join(AGENTS)}",
        ),
        argument(
            "--model",
            metavar=LOCAL_MODEL,
            help="model to use, by folder or name (default: the one that the server uses)",
        ),
        argument(
            "--url", metavar="URL", help="server to use (default: a running one, or a new one)"
        ),
        argument(
            "--print",
            action="store_true",
            help="print the equivalent shell commands, and start nothing",
        ),
        argument(
            "--anyway",
            action="store_true",
            help="start the agent even if the model is too small for it",
        ),
        argument("arguments", metavar="-- ARGS", nargs="*", help="arguments for the agent itself"),
    ),
    examples=_LAUNCH_EXAMPLES,
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
    _LAUNCH,
    Command(
        name="models",
        help="list, search, check, download and remove models",
        work="app.commands.models:show",
        arguments=(_JSON,),
        examples=_MODELS_EXAMPLES,
        actions=(
            _LIST,
            _SHOW,
            _SEARCH,
            _CHECK,
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
        arguments=(_JSON,),
        examples=_LOADED_NOTE,
    ),
    Command(
        name="stop",
        help="unload a model from the servers that run here, once its answers have ended",
        work="app.commands.loaded:unload",
        arguments=(
            argument("model", metavar=LOCAL_MODEL, help="its name, as fullstop ps lists it"),
        ),
        examples=_LOADED_NOTE,
    ),
    Command(
        name="replay",
        help="play a saved run again, with the same stops or with others",
        description="Replay a saved run through the real matcher; no model is needed.",
        work="app.commands.replay:run",
        arguments=(
            argument("file", type=absolute_path, metavar="FILE", help="a run saved by --save-run"),
            *stop_arguments("stop before this text, in place of the run's own stops; repeatable"),
            argument("--no-stop", action="store_true", help="play it without any stop strings"),
            argument(
                "--repetition-detection",
                metavar="FIGURES",
                help=f"{REPETITION_HELP} (default: as in the run)",
            ),
            _JSON,
        ),
        examples=_REPLAY_EXAMPLES,
    ),
    Command(
        name="inspect",
        help="say what is wrong with an answer that any server gave",
        work="app.commands.inspect:run",
        arguments=(
            argument(
                "file", metavar="FILE", help="the answer, saved or pasted; - reads standard input"
            ),
            *stop_arguments("a stop of the request, taken exactly as given; repeatable"),
            _JSON,
        ),
        examples=_INSPECT_EXAMPLES,
    ),
    Command(
        name="probe",
        help="test how any server handles stops",
        work="app.commands.probe:run",
        arguments=probe_options.ARGUMENTS,
        examples=probe_options.examples("fullstop probe"),
    ),
    Command(
        name="completion",
        help="print a script that completes commands, options and models in a shell",
        work="app.commands.completion:run",
        arguments=(argument("shell", metavar="SHELL", choices=_SHELLS, help=", ".join(_SHELLS)),),
        examples=_COMPLETION_EXAMPLES,
    ),
)
"""Every command but the window, which the program is without one."""
WINDOW = Command(name="window", help="", work="app.commands.window:run", options=ChatOptions)
