"""Large bodies with a prompt beyond the context, or with too many values, are refused in words."""

import gzip
import json
from typing import Any

import pytest

from api.dialects.anthropic.wire import MessageCreateParams
from api.dialects.completions import CompletionParams
from api.dialects.ollama.wire import ChatParams
from api.dialects.responses.wire import ResponseParams
from api.dialects.sglang.wire import GenerateParams
from api.dialects.shared.body import examined
from api.transport.errors import ApiError, ContextOverflow, ErrorKind
from tests.api.bodies.large import ASK, overflow_words


@pytest.mark.parametrize(
    ("path", "field", "packing", "is_list"),
    [
        ("/v1/completions", "prompt", None, True),
        ("/generate", "input_ids", "gzip", False),
    ],
)
def test_a_prompt_of_more_than_a_million_token_ids_is_too_long(
    site: Any, path: str, field: str, packing: str | None, is_list: bool
) -> None:
    ids = b"[" + b"1, " * 1_000_100 + b"1]"
    raw = b'{"model": "m", "%s": %s}' % (field.encode(), b"[[1], %s]" % ids if is_list else ids)
    headers = {"Content-Encoding": packing} if packing else {}
    sent = gzip.compress(raw, 1) if packing else raw
    told = overflow_words(site.send("POST", path, sent, headers), path)
    few = [1] * 40_000
    as_few = overflow_words(site.send("POST", path, {"model": "m", field: few}), path)

    assert told.replace("1000101", "40000") == as_few


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/messages", "messages"),
        ("/v1/responses", "input"),
        ("/api/chat", "messages"),
    ],
)
def test_a_prompt_of_sixty_thousand_messages_is_too_long(site: Any, path: str, field: str) -> None:
    many = [{"role": "user", "content": "Hi"}] * 60_001
    reply = site.send("POST", path, {"model": "m", "max_tokens": 3, field: many})

    assert reply.status == 400
    # Ollama's message counts the tokens beyond the demo model's context.
    figure = str(60_001 - 32_768) if path == "/api/chat" else "60001"
    assert figure in overflow_words(reply, path)


def refused(body: Any, model: Any = CompletionParams, context: int | None = 1000) -> ApiError:
    with pytest.raises(ApiError) as caught:
        examined(json.dumps(body).encode(), model, context)
    return caught.value


def test_only_lists_of_ids_that_are_prompts_count_as_tokens() -> None:
    ids = list(range(1000))
    error = refused({"model": "m", "prompt": ids})
    assert isinstance(error, ContextOverflow)
    assert (error.field, error.prompt_tokens, error.max_tokens) == (("prompt",), 1000, 999)
    error = refused({"model": "m", "prompt": [[1], [*ids, 5], ids]})
    assert isinstance(error, ContextOverflow)
    assert error.prompt_tokens == 1001
    # Elsewhere, and inside texts, such a list is not a prompt.
    assert refused({"model": "m", "prompt": {"prompt": ids}}).field == ("prompt",)
    assert refused({"model": "m", "prompt": "a", "stop_token_ids": {"a": ids}}).field == (
        "stop_token_ids",
    )
    for prompt in (json.dumps({"prompt": ids}), str(ids), ids[:999]):
        body = {"model": "m", "prompt": prompt, "x": ids, "y": {"prompt": ids}}
        read = examined(json.dumps(body).encode(), CompletionParams, 1000)
        assert read.prompt == [prompt]


def test_a_list_with_something_other_than_ids_is_wrong_and_not_too_long() -> None:
    for wrong in (1.5, "1", None, True, [1]):
        error = refused({"model": "m", "prompt": [*range(2000), wrong]})
        assert error.code != "context_length_exceeded"
        assert error.field == ("prompt",)


def test_without_a_model_no_prompt_is_too_long_but_too_many_values_are_refused() -> None:
    ids = list(range(2000))
    assert examined(
        json.dumps({"model": "m", "prompt": ids}).encode(), CompletionParams, None
    ).prompt == [ids]
    assert refused({"model": "m", "prompt": [1] * 1_000_001}, context=None).kind is (
        ErrorKind.TOO_LARGE
    )


def test_commas_and_braces_inside_texts_do_not_count_as_values() -> None:
    text = '{[,"\\' * 300_000
    read = examined(json.dumps({"model": "m", "prompt": text}).encode(), CompletionParams, None)
    assert read.prompt == [text]


@pytest.mark.parametrize(
    ("model", "body", "field"),
    [
        (CompletionParams, {"prompt": ["a", "x" * 2_000_000]}, "prompt"),
        (MessageCreateParams, ASK | {"messages": [
            {"role": "user", "content": "x" * 1_000_000},
            {"role": "user", "content": [{"type": "text", "text": "x" * 1_000_000}]},
        ]}, "messages"),
        (ResponseParams, {"input": "x" * 2_000_000}, "input"),
        (GenerateParams, {"text": "x" * 2_000_000}, "text"),
        (ChatParams, {"messages": [{"role": "user", "content": "x" * 2_000_000}]}, "messages"),
    ],
    ids=["completions", "messages", "responses", "generate", "ollama"],
)  # fmt: skip
def test_a_text_that_cannot_fit_however_it_is_tokenized_is_too_long(
    model: Any, body: dict[str, Any], field: str
) -> None:
    raw = json.dumps({"model": "m"} | body).encode()
    with pytest.raises(ContextOverflow) as caught:
        examined(raw, model, 100_000, 10)
    assert (caught.value.field, caught.value.prompt_tokens) == ((field,), 100_000)
    assert examined(raw, model, 100_001, 10)
    assert examined(raw, model, 100_000, None)


def test_the_text_of_an_assistant_may_be_left_out_and_does_not_count() -> None:
    turns = [{"role": "assistant", "content": "x" * 3_000_000}, *ASK["messages"]]
    assert examined(json.dumps(ASK | {"messages": turns}).encode(), MessageCreateParams, 1000, 1)


def test_more_objects_than_can_be_read_or_passed_on_are_refused() -> None:
    block = {"type": "text", "text": ""}
    for count in (200_000, 700_000):
        turn = {"role": "user", "content": [block] * count}
        error = refused(ASK | {"messages": [turn]}, MessageCreateParams, 10**9)
        assert error.kind is ErrorKind.TOO_LARGE
        assert "send fewer" in error.message
    error = refused(ASK | {"messages": ASK["messages"] * 100_001}, MessageCreateParams, 10**9)
    assert (error.kind, error.field) == (ErrorKind.INVALID_REQUEST, ("messages",))
