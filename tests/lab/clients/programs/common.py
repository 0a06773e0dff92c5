"""Code shared by the programs that run in a client's environment: it uses only Python's library."""

import json
import sys
from collections.abc import Awaitable, Callable, Iterable

SHORT = "Count from 1 to 5, one number per line"
LONG = "word " * 40_000
QUESTIONS = ("Say: apple", "Say: river", "Say: window")


def report(name: str, ask: Callable[[str], object], context_errors: type[BaseException]) -> None:
    """Ask a short and a long question; print the outcome as a line of JSON."""
    found: dict[str, object] = {"name": name}
    try:
        found["answer"] = str(ask(SHORT))
        ask(LONG)
        found["error"] = "none"
    except Exception as error:
        found["error"] = type(error).__name__
        found["is_context_error"] = isinstance(error, context_errors)
        found["message"] = str(error)[:300]
    json.dump(found, sys.stdout)
    print(flush=True)


async def conversation(name: str, ask: Callable[[str], Awaitable[tuple[str, int]]]) -> None:
    """Ask one question after the other; print the outcome as a line of JSON."""
    answers: list[str] = []
    input_tokens: list[int] = []
    found = {"name": name, "answers": answers, "input_tokens": input_tokens}
    try:
        for question in QUESTIONS:
            answer, tokens = await ask(question)
            answers.append(answer)
            input_tokens.append(tokens)
    except Exception as error:
        found["error"] = f"{type(error).__name__}: {error}"[:300]
    json.dump(found, sys.stdout)
    print(flush=True)


def text_of(pieces: Iterable[object]) -> str:
    return "".join(str(piece) for piece in pieces)
