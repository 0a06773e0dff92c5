"""Kept responses: later requests continue them, and clients read, list and delete them."""

from typing import Any

import openai
import pytest

from api.service.response_store import ResponseStore, StoredResponse

URL = "/v1/responses"
TOOL = {
    "type": "function",
    "name": "look",
    "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
}


def ask(site: Any, **fields: Any) -> Any:
    reply = site.send("POST", URL, {"model": "m", "max_output_tokens": 16, **fields})
    assert reply.status == 200, reply.body
    return reply.json


def text_of(response: Any) -> str:
    return str(response["output"][-1]["content"][0]["text"])


def said(request: Any) -> list[tuple[str, str]]:
    return [(turn.role, turn.content) for turn in request.messages]


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_a_request_continues_an_earlier_response(
    openai_client: Any, asked: list[Any], is_streamed: bool
) -> None:
    previous: str | None = None
    texts: list[str] = []
    for question in ("Say: one", "Say: two", "Say: three"):
        wanted = {"model": "m", "input": question, "previous_response_id": previous}
        if is_streamed:
            with openai_client.responses.stream(**wanted) as stream:
                response = stream.get_final_response()
        else:
            response = openai_client.responses.create(**wanted)
        assert response.previous_response_id == previous
        previous = response.id
        texts.append(response.output_text)
    assert said(asked[-1]) == [
        ("user", "Say: one"),
        ("assistant", texts[0]),
        ("user", "Say: two"),
        ("assistant", texts[1]),
        ("user", "Say: three"),
    ]


def test_a_call_and_its_result_can_be_in_two_requests(site: Any, asked: list[Any]) -> None:
    first = ask(site, input="Look", tools=[TOOL], tool_choice="required", max_output_tokens=200)
    [call] = [item for item in first["output"] if item["type"] == "function_call"]
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "nothing"}
    ask(site, input=[result], previous_response_id=first["id"], tools=[TOOL])
    turn = asked[1].messages[-1]
    assert (turn.role, turn.content, turn.name) == ("tool", "nothing", "look")
    assert asked[1].messages[-2].tool_calls[0].name == "look"


def test_a_request_can_refer_to_an_item_by_its_id(site: Any, asked: list[Any]) -> None:
    first = ask(site, input="Say: one")
    reference = {"type": "item_reference", "id": first["output"][-1]["id"]}
    for item in (reference, {"id": reference["id"]}):
        ask(
            site,
            input=[
                {"role": "user", "content": "Say: one"},
                item,
                {"role": "user", "content": "On"},
            ],
        )
        assert said(asked[-1])[1] == ("assistant", text_of(first))


@pytest.mark.parametrize("fields", [{"previous_response_id": "resp_x"}, {}], ids=["id", "item"])
def test_a_missing_response_is_reported_in_words_that_clients_recognise(
    site: Any, fields: dict[str, Any]
) -> None:
    body = {"model": "m", "input": [{"type": "item_reference", "id": "msg_x"}], **fields}
    reply = site.send("POST", URL, body)
    if fields:
        assert reply.status == 400
        assert reply.json["error"]["code"] == "previous_response_not_found"
    else:
        assert reply.status == 404
        assert reply.json["error"]["param"] == "input[0].id"


def test_a_response_with_store_false_is_not_kept(site: Any) -> None:
    first = ask(site, input="Say: one", store=False)
    assert first["store"] is False
    assert site.send("GET", f"{URL}/{first['id']}").status == 404
    reply = site.send(
        "POST", URL, {"model": "m", "input": "x", "previous_response_id": first["id"]}
    )
    assert reply.json["error"]["code"] == "previous_response_not_found"


def test_nothing_is_reported_as_stored_where_storage_is_off(serve: Any) -> None:
    off = serve(kept_responses_bytes=0)

    assert ask(off, input="Say: one")["store"] is False


def test_the_vendors_client_reads_lists_and_deletes(openai_client: Any) -> None:
    first = openai_client.responses.create(model="m", input="Say: one")
    second = openai_client.responses.create(
        model="m", input="Say: two", previous_response_id=first.id, metadata={"a": "b"}
    )
    assert openai_client.responses.retrieve(second.id) == second
    items = list(openai_client.responses.input_items.list(second.id, order="asc"))
    assert [item.role for item in items] == ["user", "assistant", "user"]
    assert items[1].id == first.output[-1].id
    newest = openai_client.responses.input_items.list(second.id, limit=1)
    assert newest.data[0].id == items[-1].id
    assert newest.has_more
    rest = openai_client.responses.input_items.list(second.id, after=items[-1].id)
    assert [item.id for item in rest.data] == [items[1].id, items[0].id]
    openai_client.responses.delete(second.id)
    with pytest.raises(openai.NotFoundError):
        openai_client.responses.retrieve(second.id)
    assert openai_client.responses.retrieve(first.id) == first


def test_the_counted_tokens_of_an_input_include_the_earlier_conversation(
    openai_client: Any, site: Any
) -> None:
    first = openai_client.responses.create(model="m", input="Say: one")
    alone = openai_client.responses.input_tokens.count(model="m", input="Say: two")
    whole = openai_client.responses.input_tokens.count(
        model="m", input="Say: two", previous_response_id=first.id
    )
    after = openai_client.responses.create(
        model="m", input="Say: two", previous_response_id=first.id
    )
    assert alone.input_tokens < whole.input_tokens == after.usage.input_tokens
    reply = site.send("POST", f"{URL}/input_tokens", {"input": "Say: two"})
    assert reply.json == {"object": "response.input_tokens", "input_tokens": alone.input_tokens}


@pytest.mark.parametrize("other", [None, "another key"])
def test_the_responses_of_one_key_are_not_there_for_others(site: Any, other: str | None) -> None:
    mine = {"Authorization": "Bearer my key"}
    theirs = {} if other is None else {"Authorization": f"Bearer {other}"}
    body = {"model": "m", "max_output_tokens": 4, "input": "My PIN is 4711"}
    response = site.send("POST", URL, body, mine).json
    item = {"type": "item_reference", "id": response["output"][0]["id"]}

    def statuses(headers: dict[str, str]) -> list[int]:
        one = f"{URL}/{response['id']}"
        asked = [("GET", one, None), ("GET", f"{one}/input_items", None)]
        asked += [("POST", URL, body | {"previous_response_id": response["id"]})]
        asked += [("POST", URL, body | {"input": [item, {"role": "user", "content": "Hi"}]})]
        asked += [("DELETE", one, None)]
        return [site.send(*sent, headers).status for sent in asked]

    refused = statuses(theirs)
    assert all(400 <= status < 500 for status in refused), refused
    assert statuses(mine) == [200] * 5


# -- the store ---------------------------------------------------------------------------------


def made(its_id: str, previous: str = "", size: int = 10_000) -> StoredResponse:
    return StoredResponse(
        its_id, previous, ("{}",), (f"in_{its_id}",), "x" * size, (f"out_{its_id}",), ""
    )


def test_the_least_recently_used_answers_are_dropped_if_there_is_no_room() -> None:
    kept = ResponseStore(35_000, 60)
    for its_id in "abc":
        kept.put(made(its_id))
    assert kept.get("", "a")
    kept.put(made("d"))
    assert [its_id for its_id in "abcd" if kept.get("", its_id)] == ["a", "c", "d"]
    assert kept.of_item("", "out_b") is None
    assert kept.of_item("", "out_d") == made("d")
    kept.put(made("e", size=10**6))
    assert [its_id for its_id in "acde" if kept.get("", its_id)] == ["a", "c", "d"]
