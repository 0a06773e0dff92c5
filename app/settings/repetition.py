"""The value of ``--repetition-detection``: ``on``, ``off`` or figures. Pure; any thread."""

import json
from typing import Any

from app import exits
from app.exits import CommandError
from engine.errors import InvalidRequest
from engine.stopping.repetition import DEFAULT_DETECTION, RepetitionDetection

OFF = "off"
REPETITION_HELP = (
    "end an answer whose last tokens are copies of one another, and reasoning that is, after which "
    f"the answer begins: on ({DEFAULT_DETECTION.min_count} copies and "
    f"{DEFAULT_DETECTION.min_tokens} tokens), off, or figures, such as "
    "max_pattern_size=100,min_count=3 (also min_pattern_size and min_tokens)"
)


def repetition_detection(text: str) -> RepetitionDetection | None:
    """Return the figures of an option; None where it is off.

    Raises:
        CommandError: It is neither on, off nor figures; the message names the wrong figure.
    """
    if text in ("on", OFF):
        return DEFAULT_DETECTION if text == "on" else None
    try:
        figures = json.loads(text) if text.lstrip().startswith("{") else _pairs(text)
        if not all(type(value) is int for value in figures.values()):
            raise ValueError
        return RepetitionDetection(**figures)
    except InvalidRequest as error:
        figure = error.field.rpartition(".")[2]
        raise CommandError(
            f"--repetition-detection: {figure} {error.reason}", exits.USAGE
        ) from error
    except (ValueError, TypeError) as error:
        raise CommandError(
            f"--repetition-detection: {text} is neither on, off nor figures such as "
            "max_pattern_size=100,min_count=3",
            exits.USAGE,
        ) from error


def _pairs(text: str) -> dict[str, Any]:
    pairs = (pair.partition("=") for pair in text.split(","))
    return {name.strip(): int(value) for name, _, value in pairs}
