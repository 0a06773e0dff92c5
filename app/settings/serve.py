"""The settings of a server without a window: declared once, resolved from three sources."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from api.service.config import ImageRule, ServerConfig
from app.settings.repetition import OFF, REPETITION_HELP
from engine.values.limits import Limits
from ui.preferences import API_KEY_VARIABLE, DEFAULT_PORT, declare

DEFAULT_HOST = "127.0.0.1"
PREFIX = "FULLSTOP_"
MODEL_HELP = (
    "folder of an MLX model, or the name of one that the tools of Hugging Face or LM Studio have "
    "downloaded (default: the demo model that comes with the program)"
)
DRAFT_HELP = (
    "a smaller model with the same vocabulary, or a Gemma 4 model's assistant, by folder or name, "
    "which guesses the next tokens; answers are the same, and faster if its guesses are right"
)
TEMPLATE_HELP = (
    "a chat template in place of the model's own, which is checked first: a Jinja file, or the "
    "JSON of a tokenizer"
)
PLAIN_HELP = (
    "compute each token by itself; otherwise tokens that repeat the prompt or the answer are "
    "drafted and verified several at a time if that is faster, with the same answers"
)

# The server's and the engine's own defaults.
_SERVER, _ENGINE = ServerConfig(), Limits()
# Larger numbers are probably mistakes of units.
_MAX_BYTES, _MAX_COUNT, _MAX_S = 1 << 50, 1_000_000, 86_400
_LIMITS = "limits"
_T = TypeVar("_T")


def _count(
    default: _T, text: str, maximum: int = _MAX_COUNT, *, minimum: int = 1, example: Any = None
) -> _T:
    return declare(
        default,
        help=text,
        minimum=minimum,
        maximum=maximum,
        metavar="N",
        section=_LIMITS,
        example=example,
    )


def _seconds(default: float, text: str, *, exclusive_minimum: bool = True) -> float:
    return declare(
        default,
        help=text,
        minimum=0,
        maximum=_MAX_S,
        exclusive_minimum=exclusive_minimum,
        metavar="S",
        section=_LIMITS,
    )


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The settings of a server without a window, by their names in the settings file."""

    host: str = declare(
        DEFAULT_HOST, help="address to listen on; listening beyond this computer requires a key"
    )
    port: int = declare(
        DEFAULT_PORT, help="port to listen on; 0 picks a free one", minimum=0, maximum=65_535
    )
    model: tuple[str, ...] = declare(
        (),
        help=f"{MODEL_HELP}; repeatable: requests then choose among them by name, and the first "
        "answers those that name none",
        metavar="MODEL",
        example=["~/models/some-mlx-model"],
    )
    models_folder: tuple[str, ...] = declare(
        (),
        help="a folder of models that requests may name; each is loaded when it is needed; "
        "repeatable",
        metavar="FOLDER",
        example=["~/models"],
    )
    one_model: bool = declare(
        False,
        help="answer every request with one model, whatever name the request gives; this is always "
        "so with a single --model, or if only the demo model is present; otherwise requests may "
        "name every model that fullstop models lists",
    )
    alias: tuple[str, ...] = declare(
        (),
        help="another name for one of several models, such as the one that an app asks for; "
        "repeatable",
        metavar="NAME=MODEL",
        example=["claude-haiku=some-mlx-model"],
    )
    pin: tuple[str, ...] = declare(
        (),
        help="one of several models that stays in memory when another needs room; repeatable",
        metavar="MODEL",
        example=["some-mlx-model"],
    )
    lora_modules: tuple[str, ...] = declare(
        (),
        help="a LoRA adapter of mlx_lm.lora, by folder or name, as a model of its own under this "
        "name; its base is --model, or else the model that it names; repeatable",
        metavar="NAME=ADAPTER",
        example=["poems=~/adapters/poems"],
    )
    draft_model: Path | None = declare(
        None, help=DRAFT_HELP, metavar="MODEL", example="~/models/some-smaller-mlx-model"
    )
    chat_template: Path | None = declare(
        None,
        help=f"{TEMPLATE_HELP}; of several models, for the first one",
        metavar="FILE",
        example="~/template.jinja",
    )
    api_key: str | None = declare(
        None,
        help="key that requests must carry; every program on this computer can see a key on the "
        "command line, so rather give --api-key-file (default: the environment's "
        f"{API_KEY_VARIABLE}, which other users of this computer cannot read)",
        metavar="KEY",
        example="secret",
    )
    api_key_file: Path | None = declare(
        None,
        help="a file whose first line is that key; only you should be able to read it",
        metavar="FILE",
        example="~/fullstop-key",
    )
    allow_origin: tuple[str, ...] = declare(
        (),
        help="let web pages of this origin call, such as https://example.org, or all of a scheme "
        "(chrome-extension://*); pages of this computer and desktop apps may anyway; repeatable",
        metavar="ORIGIN",
        example=["https://example.org"],
    )
    allow_host: tuple[str, ...] = declare(
        (),
        help="a name by which other computers reach this one, in addition to its own name, "
        "*.local, *.internal and *.localhost; repeatable",
        metavar="NAME",
        example=["my-computer.local"],
    )
    tls_cert: Path | None = declare(
        None,
        help="certificate (PEM, with its chain) that encrypts connections; without it, anyone on "
        "the network can read keys, prompts and answers",
        metavar="FILE",
        example="~/server.pem",
    )
    tls_key: Path | None = declare(
        None,
        help="the certificate's private key (PEM, no passphrase), if it is not in the same file",
        metavar="FILE",
        example="~/server-key.pem",
    )
    strict: bool = declare(
        False, help="refuse what the hosted services refuse, such as more than four stops"
    )
    images: ImageRule = declare(
        _SERVER.images,
        help="what becomes of pictures where the model does not see: refuse, refuse-new (only in "
        "the last message; a note stands for earlier pictures and for those of tools, so that "
        "agents go on), or note (always a note)",
    )
    ignore_template_eos: bool = declare(
        False,
        help="go on after an end token that only the chat template names, not the model's files",
    )
    thinking_budget: int | None = _count(
        None,
        "the most tokens of reasoning of a request that names neither a budget nor an effort; "
        "then the answer begins (default: any number)",
        minimum=0,
        example=4_096,
    )
    repetition_detection: str = declare(
        OFF,
        help=f"{REPETITION_HELP}; for requests that do not say so themselves",
        metavar="FIGURES",
        example="on",
    )
    task_max_tokens: int = _count(
        _SERVER.task_max_tokens,
        "the most tokens of the answer to a task that a client sets in the background without "
        "a limit: Open WebUI's titles, tags and suggestions; 0 for no limit",
        minimum=0,
    )
    verbose: bool = declare(False, help="log requests on standard error")
    log: Literal["text", "json"] = declare(
        "text",
        help="format of the log; json writes one object per line, also for every request",
        example="json",
    )
    max_rows: int = _count(
        _ENGINE.max_rows, "the most answers that are generated at the same time", 1_024
    )
    max_waiting: int = _count(
        _ENGINE.max_waiting, "the most requests that may wait; more get status 429"
    )
    prefill_chunk: int = _count(
        _ENGINE.prefill_chunk,
        "the most tokens of a prompt that are read between two steps of running answers",
    )
    context_bytes: int | None = _count(
        None,
        "bytes of memory for the context of all running answers (default: what is free once "
        "the model is loaded)",
        _MAX_BYTES,
        example=1 << 30,
    )
    memory_bytes: int | None = _count(
        None,
        "bytes of memory for the weights and caches of all models together; the least "
        "recently used model is unloaded when another needs room (default: what this computer "
        "lets models use)",
        _MAX_BYTES,
        example=1 << 34,
    )
    prompt_cache_bytes: int = _count(
        _ENGINE.prompt_cache_bytes,
        "bytes of memory for the cache of earlier prompts",
        _MAX_BYTES,
        minimum=0,
    )
    prompt_cache_bits: int | None = _count(
        None,
        "8 to keep earlier prompts in 8 bits: they take about half of the memory, and answers that "
        "continue them may differ (default: as the model computes them)",
        8,
        minimum=8,
        example=8,
    )
    disk_cache_bytes: int | None = _count(
        None,
        "bytes on disk for the cache of earlier prompts, which is then kept after the "
        "server ends (default: none, and the cache of an earlier server is deleted, because it "
        "contains the prompts of everybody who uses the server)",
        _MAX_BYTES,
        example=10**10,
    )
    kept_responses_bytes: int = _count(
        _SERVER.kept_responses_bytes,
        "bytes of memory for answers that clients of Responses continue by their id; 0 keeps none",
        _MAX_BYTES,
        minimum=0,
    )
    kept_responses_s: float = _seconds(
        _SERVER.kept_responses_s,
        "seconds after which an unused answer of this kind is deleted",
    )
    kept_responses_folder: Path | None = declare(
        None,
        help="a folder, used by this server only, in which such answers are also kept after the "
        "server ends (default: none is written to disk, because it contains the prompts of "
        "everybody who uses the server)",
        metavar="FOLDER",
        example="~/fullstop-responses",
        section=_LIMITS,
    )
    plain_decoding: bool = declare(
        False,
        help=PLAIN_HELP,
        section=_LIMITS,
    )
    max_body_bytes: int = _count(
        _SERVER.max_body_bytes, "the largest request body, in bytes", _MAX_BYTES
    )
    max_connections: int = _count(_SERVER.max_connections, "the most open connections")
    keepalive_s: float = _seconds(
        _SERVER.keepalive_s, "seconds of silence after which a stream gets a keepalive message"
    )
    header_timeout_s: float = _seconds(
        _SERVER.header_timeout_s, "seconds in which a new connection must send its first headers"
    )
    body_timeout_s: float = _seconds(
        _SERVER.body_timeout_s, "seconds in which a request's body must arrive"
    )
    idle_timeout_s: float = _seconds(
        _SERVER.idle_timeout_s, "seconds after which an idle connection is closed"
    )
    write_timeout_s: float = _seconds(
        _SERVER.write_timeout_s,
        "seconds after which a client that does not read its stream is disconnected",
    )
    stop_grace_s: float = _seconds(
        _SERVER.stop_grace_s,
        "seconds that running answers get when the server is stopped",
        exclusive_minimum=False,
    )
