"""The grammar of ``fullstop serve``: its options, their checks and their help.

An option that is not given stays absent, so that the environment or the settings file can say it
instead. Must not run anything. Pure; main thread.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from app.settings.options import DEFAULT_HOST, DEFAULT_PORT

Command = Callable[[argparse.Namespace], int]

API_KEY_VARIABLE = "FULLSTOP_API_KEY"

_EXAMPLES = f"""\
examples:
  fullstop serve
  fullstop serve --port 0
  {API_KEY_VARIABLE}=secret fullstop serve --host 0.0.0.0 --model ~/models/some-mlx-model
  mlx.launch --hostfile hosts.json -- "$(which fullstop)" serve --model /models/a-large-one

The last one shards a model across several machines; the first of them serves it.
Other apps then use the address that is printed, in whichever API they know.
Every option may also be a variable of the environment (--max-rows is FULLSTOP_MAX_ROWS) or a line
of the settings file (max_rows = 8); what stands on the command line counts first, then the
environment, then the file.
exit codes: 0 ended by Ctrl-C or SIGTERM, 1 failed, 2 wrong usage
"""


class _Limit(NamedTuple):
    option: str
    kind: type[int] | type[float]
    metavar: str
    default: float | None
    help: str


# The defaults are the server's and the engine's own; a test compares them.
LIMITS = (
    _Limit("--max-rows", int, "N", 32, "answers that are generated together"),
    _Limit("--max-waiting", int, "N", 256, "requests that may wait behind them"),
    _Limit("--prefill-chunk", int, "N", 512, "most tokens of a prompt read between two tokens"),
    _Limit("--context-bytes", int, "N", None, "memory for the context of all running answers"),
    _Limit("--prompt-cache-bytes", int, "N", 1 << 30, "memory for earlier prompts"),
    _Limit("--max-body-bytes", int, "N", 32 << 20, "largest request body"),
    _Limit("--max-connections", int, "N", 512, "open connections"),
    _Limit("--keepalive-s", float, "S", 5, "silence after which a stream gets a sign of life"),
    _Limit("--header-timeout-s", float, "S", 30, "time for a new connection's first headers"),
    _Limit("--body-timeout-s", float, "S", 60, "time for a request's body"),
    _Limit("--idle-timeout-s", float, "S", 75, "rest of a connection between two requests"),
    _Limit("--write-timeout-s", float, "S", 60, "time for which a stream may stay unread"),
    _Limit("--stop-grace-s", float, "S", 2, "time for open answers when the server is ended"),
)


def add_serve(commands: Any, run: Command) -> None:
    """Add the command to a parser's subcommands."""
    serve = commands.add_parser(
        "serve",
        help="serve the model to other apps over HTTP, without a window",
        description="Serve the model to other apps over HTTP, without a window.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    serve.add_argument(
        "--host",
        help=f"address to listen on (default {DEFAULT_HOST}); any but this computer's needs a key",
    )
    serve.add_argument(
        "--port",
        type=_port,
        help=f"port to listen on (default {DEFAULT_PORT}); 0 picks a free one",
    )
    serve.add_argument(
        "--model",
        type=Path,
        metavar="MODEL",
        help="folder of an MLX model, or the name of one that the tools of Hugging Face or LM "
        "Studio have fetched (default: the demo model that comes with the program)",
    )
    serve.add_argument(
        "--api-key",
        metavar="KEY",
        help=f"key that requests must carry (default: the environment's {API_KEY_VARIABLE}, "
        "which other users of this computer cannot read)",
    )
    serve.add_argument(
        "--allow-origin",
        metavar="ORIGIN",
        action="append",
        help="let web pages of this origin call, such as https://example.org, or desktop apps of "
        "a scheme: app://*, tauri://*, vscode-webview://*; repeatable",
    )
    serve.add_argument(
        "--allow-host",
        metavar="NAME",
        action="append",
        help="a name under which other computers reach this one, beside its own name, *.local, "
        "*.internal and *.localhost; repeatable",
    )
    serve.add_argument(
        "--tls-cert",
        type=Path,
        metavar="FILE",
        help="certificate (PEM, with its chain) that encrypts connections; "
        "without it, anyone on the network can read keys, prompts and answers",
    )
    serve.add_argument(
        "--tls-key",
        type=Path,
        metavar="FILE",
        help="the certificate's private key (PEM, no passphrase), if it is not in the same file",
    )
    serve.add_argument(
        "--strict",
        action="store_true",
        help="refuse what the hosted services refuse, such as more than four stops",
    )
    serve.add_argument("--verbose", action="store_true", help="log requests on standard error")
    serve.add_argument(
        "--settings",
        type=Path,
        metavar="FILE",
        help="a TOML file of settings (default: serve.toml in the folder of settings, if any)",
    )
    limits = serve.add_argument_group("limits")
    for limit in LIMITS:
        limits.add_argument(
            limit.option,
            type=limit.kind,
            metavar=limit.metavar,
            help=f"{limit.help} ({_default_of(limit)})",
        )
    serve.set_defaults(command=run)


def _default_of(limit: _Limit) -> str:
    if limit.default is None:
        return "default: what is free once the model is loaded"
    return f"default {limit.default:g}" if limit.kind is float else f"default {limit.default}"


def _port(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{number} is not between 0 and 65535")
    return number
