"""The tokens of prompts and conversations, the text of tokens, and the cache of prompts."""

from typing import Any

import mlx_lm
import pytest

from tests.api.conftest import Site

TURNS = [{"role": "user", "content": "Count from 1 to 3"}]
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


def tokens_of(site: Site, **body: Any) -> dict[str, Any]:
    answer = site.send("POST", "/tokenize", {"model": "m", **body})
    assert answer.status == 200, answer.json
    found: dict[str, Any] = answer.json
    assert found["count"] == len(found["tokens"])
    return found


@pytest.fixture(scope="module")
def tokenizer(demo_model_path: Any) -> Any:
    return mlx_lm.load(str(demo_model_path))[1]


def test_a_text_is_tokenized_like_a_raw_prompt(site: Site, tokenizer: Any) -> None:
    found = tokens_of(site, prompt="über 数!", return_token_strs=True)
    assert found["tokens"] == tokenizer.encode("über 数!")
    assert found["max_model_len"] == 32_768
    assert [len(found["token_strs"]), "".join(found["token_strs"])[-1]] == [found["count"], "!"]
    assert tokens_of(site, prompt="a")["token_strs"] is None
    assert tokens_of(site, prompt="")["tokens"] == []


def test_a_conversation_is_counted_as_chat_completions_reads_it(site: Site) -> None:
    image = {
        "role": "user",
        "content": [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
        ],
    }
    for more in (
        {},
        {"tools": [TOOL]},
        {"chat_template_kwargs": {"enable_thinking": False}},
        {"reasoning": {"max_tokens": 4}},
        {"reasoning": {"effort": "high"}},
        {"enable_thinking": True, "thinking_budget": 0},
        {"enable_thinking": True, "thinking_token_budget": 0},
        {"messages": [image], "fullstop": {"images": "note"}},
    ):
        asked = {"messages": TURNS, **more}
        answer = site.send(
            "POST", "/v1/chat/completions", {"model": "m", "max_tokens": 1, **asked}
        ).json
        assert tokens_of(site, **asked)["count"] == answer["usage"]["prompt_tokens"]


def test_tokens_are_turned_back_into_their_text(site: Site) -> None:
    tokens = tokens_of(site, messages=TURNS)["tokens"]
    found = site.send("POST", "/detokenize", {"model": "m", "tokens": tokens}).json
    text = found["prompt"]
    assert found["content"] == text  # as llama.cpp spells it
    assert "<|im_start|>user\nCount from 1 to 3<|im_end|>" in text
    assert tokens_of(site, prompt=text)["tokens"] == tokens
    assert site.send("POST", "/detokenize", {"tokens": []}).json == {
        "prompt": "",
        "content": "",
    }


def test_llama_cpps_content_is_tokenized_without_special_tokens(site: Site, tokenizer: Any) -> None:
    text = "<|im_start|>über 数!"
    for more in ({}, {"add_special": False}, {"parse_special": True}):
        expected = tokenizer.encode(text, add_special_tokens=False)
        assert tokens_of(site, content=text, **more)["tokens"] == expected
    assert tokens_of(site, content=text, add_special=True)["tokens"] == tokenizer.encode(text)
    assert tokens_of(site, content="")["tokens"] == []


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"prompt": "a", "messages": TURNS}, "prompt"),
        ("/tokenize", {"prompt": "a", "content": "a"}, "prompt"),
        ("/tokenize", {"content": "a", "messages": TURNS}, "prompt"),
        ("/tokenize", {"content": "a", "with_pieces": True}, "with_pieces"),
        ("/tokenize", {"content": "a", "parse_special": False}, "parse_special"),
        ("/tokenize", {"messages": TURNS, "chat_template": "x"}, "chat_template"),
        ("/tokenize", {"messages": TURNS, "add_special_tokens": True}, "add_special_tokens"),
        ("/detokenize", {"tokens": [5, 1 << 20]}, "tokens[1]"),
    ],
)
def test_a_wrong_request_is_refused_with_its_field(
    site: Site, path: str, body: dict[str, Any], field: str
) -> None:
    answer = site.send("POST", path, body)
    assert answer.status == 400
    assert answer.json["error"]["param"] == field
