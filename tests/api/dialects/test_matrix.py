"""Every dialect, every kind of stop, streamed and whole: the text ends before the stop, the match
is reported, no frame contains a stop, and tokens are counted up to the one that completes it.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.api.conftest import Reply, Site, acting
from tests.api.questions import question
from tests.support.models.formats import ANALYSIS, FINAL, HARMONY
from tests.support.scripted import Stage

SCRIPTS = {
    "one token": ["One ", "two ", "END", " more", " still"],
    "several tokens": ["One ", "two ", "EN", "D mo", "re", " still"],
}
TEXT = "One two "


@dataclass(frozen=True)
class Stop:
    """A stop of a request, what must match, and after how many tokens of the text."""

    script: str
    match: str
    tokens: int
    strings: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    text: str = TEXT


STOPS = {
    "a string of one token": Stop("one token", "END", 3, ("END",)),
    "a string of several tokens": Stop("several tokens", "END m", 4, ("END m",)),
    "a string inside a token": Stop("one token", "or", 4, ("or",), (), TEXT + "END m"),
    "an id": Stop("one token", "id of END", 3, (), ("END",)),
    "several ids": Stop("one token", "id of END", 3, (), (" still", "END")),
    "a string before an id": Stop("one token", "END", 3, ("END",), (" more",)),
    "an id before a string": Stop("one token", "id of END", 3, ("more",), ("END",)),
    "a string and its id": Stop("one token", "END", 3, ("END",), ("END",)),
    "several tokens before an id": Stop("several tokens", "END m", 4, ("END m",), ("re",)),
    "an id before several tokens": Stop("several tokens", "id of EN", 3, ("END m",), ("EN",)),
    "an id that releases the start of a string": Stop(
        "several tokens", "id of re", 5, ("END moon",), ("re",), TEXT + "END mo"
    ),
}


@dataclass(frozen=True)
class Outcome:
    """What a client reads from an answer."""

    text: str
    match: str | int | None
    output_tokens: int
    frames: list[str] = field(default_factory=list)


# -- the dialects -----------------------------------------------------------------------------


class Chat:
    path = "/v1/chat/completions"

    def read(self, reply: Reply) -> Outcome:
        body = reply.json
        (choice,) = body["choices"]
        assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", choice["matched_stop"])
        text = self.text_of(choice)
        return Outcome(text, choice["matched_stop"], body["usage"]["completion_tokens"], [text])

    def read_stream(self, events: list[Any]) -> Outcome:
        assert events.pop() == "[DONE]"
        *chunks, end, usage = events
        frames = [self.text_of(chunk["choices"][0]) for chunk in chunks]
        (last,) = end["choices"]
        assert last["finish_reason"] == "stop"
        return Outcome(
            "".join(frames), last["matched_stop"], usage["usage"]["completion_tokens"], frames
        )

    def text_of(self, choice: dict[str, Any]) -> str:
        return str((choice.get("message") or choice["delta"]).get("content", ""))


class Completions(Chat):
    path = "/v1/completions"

    def text_of(self, choice: dict[str, Any]) -> str:
        return str(choice["text"])


class Messages:
    """Messages; a matched id is in the fullstop object, because the vendor has no field for it."""

    path = "/v1/messages"

    def read(self, reply: Reply) -> Outcome:
        message = reply.json
        (block,) = message["content"]
        return Outcome(
            block["text"],
            self.match_of(message, message),
            message["usage"]["output_tokens"],
            [block["text"]],
        )

    def read_stream(self, events: list[Any]) -> Outcome:
        frames = [one["delta"]["text"] for one in events if one["type"] == "content_block_delta"]
        end, stop = events[-2:]
        assert (end["type"], stop["type"]) == ("message_delta", "message_stop")
        match = self.match_of(end["delta"], end)
        return Outcome("".join(frames), match, end["usage"]["output_tokens"], frames)

    def match_of(self, said: dict[str, Any], holder: dict[str, Any]) -> str | int | None:
        if said["stop_reason"] == "stop_sequence":
            return str(said["stop_sequence"])
        assert (said["stop_reason"], said["stop_sequence"]) == ("end_turn", None)
        value: int = holder["fullstop"]["stop"]["value"]
        return value


class Responses:
    """Responses; the match is in the fullstop object."""

    path = "/v1/responses"

    def read(self, reply: Reply) -> Outcome:
        text = self.text_of(reply.json)
        return self.outcome(reply.json, [text])

    def read_stream(self, events: list[Any]) -> Outcome:
        frames = [one["delta"] for one in events if one["type"] == "response.output_text.delta"]
        assert events[-1]["type"] == "response.completed"
        assert "".join(frames) == self.text_of(events[-1]["response"])
        return self.outcome(events[-1]["response"], frames)

    def outcome(self, response: dict[str, Any], frames: list[str]) -> Outcome:
        assert response["status"] == "completed"
        return Outcome(
            self.text_of(response),
            response["fullstop"]["stop"]["value"],
            response["usage"]["output_tokens"],
            frames,
        )

    def text_of(self, response: dict[str, Any]) -> str:
        message = response["output"][-1]
        assert message["type"] == "message"
        return "".join(part["text"] for part in message["content"])


class Generate:
    """SGLang's ``/generate``: every frame has the whole text so far, and all ids."""

    path = "/generate"

    def read(self, reply: Reply) -> Outcome:
        return self.read_stream([reply.json])

    def read_stream(self, events: list[Any]) -> Outcome:
        *earlier, last = [one for one in events if one != "[DONE]"]
        meta, text = last["meta_info"], last["text"]
        assert meta["finish_reason"] == {"type": "stop", "matched": meta["matched_stop"]}
        assert all(text.startswith(one["text"]) for one in earlier)
        assert all(one["meta_info"]["matched_stop"] is None for one in earlier)
        assert len(last["output_ids"]) == meta["completion_tokens"]
        return Outcome(text, meta["matched_stop"], meta["completion_tokens"], [text])


# -- the models -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Model:
    """A scripted model behind a server, and how many tokens precede its text."""

    site: Site
    stage: Stage
    before: int


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Model]]:
    """A plain model, and one of Harmony's family that also has the stop in its thinking."""
    folder = tmp_path_factory.mktemp("matrix")
    before = [*ANALYSIS, *FINAL]
    stages = {
        "plain": (Stage(folder / "plain", SCRIPTS), 0),
        "harmony": (
            Stage(
                folder / "harmony",
                {name: [*before, *script] for name, script in SCRIPTS.items()},
                **HARMONY,
            ),
            len(before),
        ),
    }
    with ExitStack() as stack:
        found = {}
        for name, (stage, count) in stages.items():
            site, _ = stack.enter_context(acting(stage))
            found[name] = Model(site, stage, count)
        yield found


ROWS = [
    ("plain", Chat()),
    ("plain", Completions()),
    ("plain", Messages()),
    ("plain", Responses()),
    ("plain", Generate()),
    ("harmony", Chat()),
    ("harmony", Responses()),
]


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", STOPS)
@pytest.mark.parametrize(
    ("family", "dialect"), ROWS, ids=[f"{family} {type(one).__name__}" for family, one in ROWS]
)
def test_a_stop_ends_the_answer_and_is_reported(
    models: dict[str, Model], family: str, dialect: Any, name: str, is_streamed: bool
) -> None:
    model, stop = models[family], STOPS[name]
    ids = [model.stage.id(piece) for piece in stop.ids]
    body = question(dialect.path, stop.script, 100, stop=list(stop.strings), stop_token_ids=ids) | {
        "stream": is_streamed
    }
    if is_streamed and isinstance(dialect, Chat):
        body["stream_options"] = {"include_usage": True}
    reply = model.site.send("POST", dialect.path, body)
    assert reply.status == 200, reply.body

    if is_streamed:
        data = [event for _, event in reply.events]
        outcome = dialect.read_stream([one if one == "[DONE]" else json.loads(one) for one in data])
    else:
        outcome = dialect.read(reply)

    by_id = stop.match.startswith("id of ")
    match = model.stage.id(stop.match.removeprefix("id of ")) if by_id else stop.match
    assert outcome.text == stop.text
    assert (type(outcome.match), outcome.match) == (type(match), match)
    assert outcome.output_tokens == model.before + stop.tokens
    for string in stop.strings:
        assert not any(string in frame for frame in outcome.frames)
