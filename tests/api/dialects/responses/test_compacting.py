"""A conversation is compacted: its questions stay, and a summary replaces the rest."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from api.dialects.responses.read import TASK
from api.dialects.shared.sealed import SUMMARY_MARK, open_sealed
from tests.api.conftest import Site, acting
from tests.support.scripted import Stage

ITEMS: list[Any] = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": "Look at the house."},
    {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at":"house"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "It is red."},
    {"type": "message", "role": "assistant", "content": "It is red."},
    {"role": "user", "content": [{"type": "input_text", "text": "And the door?"}]},
]
SUMMARY: list[str | int] = ["The house", " is red; ", "the door is “blue” 🚪."]
WRITTEN = "".join(map(str, SUMMARY))


QUESTIONS = ["Look at the house.", "And the door?"]


def said(request: Any) -> list[tuple[str, str]]:
    return [(turn.role, turn.content) for turn in request.messages]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    scripts = {TASK: SUMMARY}
    with acting(Stage(tmp_path_factory.mktemp("compacting"), scripts)) as (site, _):
        yield site


def test_a_client_continues_a_compacted_conversation(
    openai_client: openai.OpenAI, asked: list[Any]
) -> None:
    found = openai_client.responses.compact(model="m", input=ITEMS, instructions="Speak plainly.")
    output = found.to_dict(warnings=False)["output"]
    *questions, summary = output
    items: Any = [*output, {"role": "user", "content": "Go on."}]
    openai_client.responses.create(model="m", input=items)

    assert found.object == "response.compaction"
    assert [one["content"][0]["text"] for one in questions] == QUESTIONS
    assert {one["status"] for one in questions} == {"completed"}
    assert (summary["type"], open_sealed(summary["encrypted_content"], SUMMARY_MARK)) == (
        "compaction",
        WRITTEN,
    )
    assert found.usage.output_tokens == len(SUMMARY) + 1
    assert said(asked[0]) == [
        ("system", "Speak plainly."),
        ("system", "Be brief."),
        ("user", QUESTIONS[0]),
        ("assistant", ""),
        ("tool", "It is red."),
        ("assistant", "It is red."),
        ("user", QUESTIONS[1]),
        ("user", TASK),
    ]
    *questions, (_, text), last = said(asked[1])
    assert questions == [("user", question) for question in QUESTIONS]
    assert text.endswith(WRITTEN)
    assert last == ("user", "Go on.")


def test_a_kept_response_can_be_compacted(site: Any) -> None:
    def send(path: str, **fields: Any) -> Any:
        reply = site.send("POST", path, {"model": "m", **fields})
        assert reply.status == 200, reply.body
        return reply.json

    first = send("/v1/responses", input=ITEMS[:-1])
    found = send("/v1/responses/compact", previous_response_id=first["id"], input=ITEMS[-1:])
    assert [one["content"][0]["text"] for one in found["output"][:-1]] == QUESTIONS
    again = send("/v1/responses/compact", previous_response_id=first["id"])
    assert [one["content"][0]["text"] for one in again["output"][:-1]] == QUESTIONS[:1]


def test_strict_server_compacts_for_the_loaded_model_only(serve: Any) -> None:
    reply = serve(strict=True).send(
        "POST", "/v1/responses/compact", {"model": "another", "input": ITEMS}
    )

    assert (reply.status, reply.json["error"]["code"]) == (404, "model_not_found")
