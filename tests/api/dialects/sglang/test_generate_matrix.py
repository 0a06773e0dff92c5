"""Every kind of stop through /generate, whole and streamed: text, match and count are correct."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.scripted import GO

PIECES = ["one ", "two ", "ST", "OP", " three", " four"]


@dataclass(frozen=True)
class Row:
    """A stop, and what must follow: the text, the match, the sampled tokens."""

    strings: tuple[str, ...]
    ids: tuple[str, ...]
    text: str
    matched: str
    tokens: int
    is_id: bool = False


ROWS = {
    "a string of one token": Row(("two ",), (), "one ", "two ", 2),
    "a string of several tokens": Row(("STOP",), (), "one two ", "STOP", 4),
    "a string inside a token": Row(("hre",), (), "one two STOP t", "hre", 5),
    "an id": Row((), ("ST",), "one two ", "ST", 3, is_id=True),
    "several ids": Row((), (" three", "OP"), "one two ST", "OP", 4, is_id=True),
    "a string, then an id": Row(("two ",), ("OP",), "one ", "two ", 2),
    "an id before a string": Row((" four",), ("two ",), "one ", "two ", 2, is_id=True),
    "several tokens before an id": Row(("STOP",), (" three",), "one two ", "STOP", 4),
    "an id inside several tokens": Row(("STOP",), ("ST",), "one two ", "ST", 3, is_id=True),
    "both on one token": Row(("STOP",), ("OP",), "one two ", "STOP", 4),
}


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_a_stop_ends_the_answer_and_is_reported(
    serve: Callable[..., Any], staged: Callable[..., Any], row: Row, is_streamed: bool
) -> None:
    stage = staged(step_s=0, pieces=PIECES)
    stage.stage.scripts["Say"] = [stage.stage.id(piece) for piece in PIECES]
    ask = {
        "text": f"user:Say{GO}",
        "stream": is_streamed,
        "sampling_params": {
            "max_new_tokens": 50,
            "stop": list(row.strings),
            "stop_token_ids": [stage.stage.id(piece) for piece in row.ids],
        },
    }
    reply = serve(stage.engine).send("POST", "/generate", ask)
    frames = (
        [json.loads(data) for _, data in reply.events if data != "[DONE]"]
        if is_streamed
        else [reply.json]
    )
    meta = frames[-1]["meta_info"]
    matched = stage.stage.id(row.matched) if row.is_id else row.matched

    assert frames[-1]["text"] == row.text
    assert all(row.text.startswith(frame["text"]) for frame in frames)
    assert meta["matched_stop"] == matched
    assert meta["finish_reason"] == {"type": "stop", "matched": matched}
    assert meta["completion_tokens"] == row.tokens
    assert frames[-1]["output_ids"] == stage.stage.scripts["Say"][: row.tokens]
    assert all(frame["meta_info"]["matched_stop"] is None for frame in frames[:-1])
