"""What a person reads when something fails: our own words, never another library's."""

import ast
import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import UNEXPECTED
from engine.errors import (
    EngineClosed,
    EngineError,
    InvalidRequest,
    MemoryShort,
    ModelLoadFailed,
    NoModel,
    PromptTooLong,
    QueueFull,
)
from ui.words import describe_error

UI = Path(__file__).parents[2] / "ui"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            PromptTooLong("messages", 5012, 4096),
            "The prompt has 5,012 tokens; the model’s context holds 4,096, the answer "
            "included: 917 tokens too many. Shorten the message, or choose a model with a "
            "longer context.",
        ),
        (InvalidRequest("max_tokens", "must be positive"), "The longest answer must be positive."),
        (InvalidRequest("messages", "the prompt is empty"), "The prompt is empty."),
        (InvalidRequest("stop_token_ids[0]", "must be known"), "Each stop token must be known."),
        (InvalidRequest("odd", "must be even"), "The setting odd must be even."),
        (NoModel("no model is loaded"), "No model is loaded. Load one and try again."),
        (
            MemoryShort("2.0 GB", "1.0 GB"),
            "There is not enough memory for this at the moment, because other programs or models "
            "use it. Close some of them, or try again later.",
        ),
        (QueueFull(9), "Too many requests are waiting. Try again in a moment."),
        (
            EngineClosed("the engine has been shut down"),
            "The model’s engine has stopped. Try again.",
        ),
        (EngineClosed("the engine is gone"), "The engine is gone."),
        (EngineError("the disk is slow"), "The disk is slow."),
        (ModelLoadFailed("there is no config.json"), "There is no config.json."),
        (ModelLoadFailed("ValueError: Expected shape (3,) but received (4,)"), UNEXPECTED),
        (ModelLoadFailed("RuntimeError: [malloc] no memory"), "The computer ran out of memory."),
        (ZeroDivisionError("division by zero"), UNEXPECTED),
        (OSError(errno.ENOSPC, "No space left on device"), "The disk is full."),
        (
            ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)"),
            "Nothing answers at that address.",
        ),
        (OSError("Port 1 is taken. Choose another one."), "Port 1 is taken. Choose another one."),
        (TimeoutError(), "It took too long."),
    ],
)
def test_a_failure_is_explained_in_sentences(error: Exception, words: str) -> None:
    assert describe_error(error) == words


# Exceptions whose text is written for people. ``ValueError`` is our own where it is caught by
# name alone around our own readers: escapes, stop lists, the wire views.
_OUR_OWN = {
    "AttachmentRefused",
    "DamagedFile",
    "DamagedRun",
    "InvalidRequest",
    "DownloadFailed",
    "InvalidField",
    "FileRefused",
    "HubFailed",
    "ProbeFailed",
    "ProbeProblem",
    "ToolsRefused",
    "Unreadable",
    "ValueError",
}


def caught() -> Iterator[tuple[str, ast.ExceptHandler]]:
    for path in UI.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ExceptHandler) and node.name:
                yield f"{path.relative_to(UI.parent)}:{node.lineno}", node


def shows_text(handler: ast.ExceptHandler) -> bool:
    """Return whether the text of what was caught is used."""
    for node in ast.walk(handler):
        match node:
            case ast.FormattedValue(value=ast.Name(id=name)) if name == handler.name:
                return True
            case ast.Call(func=ast.Name(id="str"), args=[ast.Name(id=name)]) if (
                name == handler.name
            ):
                return True
            case ast.Attribute(value=ast.Name(id=name), attr="strerror" | "args" | "msg") if (
                name == handler.name
            ):
                return True
    return False


def names_of(handler: ast.ExceptHandler) -> set[str]:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return {ast.unparse(kind) for kind in kinds if kind is not None}


def test_no_label_shows_the_text_of_an_exception_that_is_not_ours() -> None:
    found = [
        place for place, handler in caught() if shows_text(handler) and names_of(handler) - _OUR_OWN
    ]
    assert found == []
    assert sum(shows_text(handler) for _, handler in caught()) > 3
