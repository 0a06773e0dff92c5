"""What the tokenizer must do so that stops are worth testing on this model."""

from __future__ import annotations

from typing import Any

import pytest

TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")


def ids_of(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False))


def test_it_has_as_many_tokens_as_the_model(tokenizer: Any) -> None:
    assert len(tokenizer) == 768


def test_mlx_lm_streams_it_as_byte_level_bpe(tokenizer: Any) -> None:
    assert type(tokenizer.detokenizer).__name__ == "BPEStreamingDetokenizer"


@pytest.mark.parametrize("text", ["10", " 42", "3.14", "2026"])
def test_every_digit_is_a_token_of_its_own(tokenizer: Any, text: str) -> None:
    for token in tokenizer.convert_ids_to_tokens(ids_of(tokenizer, text)):
        assert not (any(c.isdigit() for c in token) and len(token) > 1)


def test_the_alphabet_run_together_is_many_tokens(tokenizer: Any) -> None:
    assert len(ids_of(tokenizer, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")) >= 13


@pytest.mark.parametrize(
    "stop", ["END", " END", "STOP", " STOP", "hello world", " hello world", "\nEND"]
)
def test_usual_stops_span_several_tokens(tokenizer: Any, stop: str) -> None:
    assert len(ids_of(tokenizer, stop)) >= 2


@pytest.mark.parametrize("text", ["😀", "你", "é"])
def test_characters_beyond_ascii_arrive_in_pieces(tokenizer: Any, text: str) -> None:
    assert len(ids_of(tokenizer, text)) == len(text.encode())


@pytest.mark.parametrize(
    "text",
    ["a  b\n\n\tc ", " lead", "x\r\ny", "def f(x):\n    return x", "Köln 🎉 你好", "a\u0301\u200d"],
)
def test_text_survives_a_round_trip(tokenizer: Any, text: str) -> None:
    assert tokenizer.decode(ids_of(tokenizer, text)) == text


@pytest.mark.parametrize("word", ["zorvik", "returning", "Florpen", "given"])
def test_a_word_is_cut_alike_with_and_without_a_space(tokenizer: Any, word: str) -> None:
    alone = tokenizer.convert_ids_to_tokens(ids_of(tokenizer, word))
    spaced = tokenizer.convert_ids_to_tokens(ids_of(tokenizer, " " + word))
    assert spaced == ["Ġ" + alone[0], *alone[1:]]


@pytest.mark.parametrize("tag", TAGS)
def test_tags_are_single_tokens_that_decoding_keeps(tokenizer: Any, tag: str) -> None:
    assert len(ids := ids_of(tokenizer, tag)) == 1
    assert tokenizer.decode(ids, skip_special_tokens=True) == tag


@pytest.mark.parametrize("name", ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
def test_control_tokens_are_special(tokenizer: Any, name: str) -> None:
    assert len(ids := ids_of(tokenizer, name)) == 1
    assert tokenizer.decode(ids, skip_special_tokens=True) == ""


def test_the_end_of_a_turn_is_the_only_end(tokenizer: Any) -> None:
    assert tokenizer.eos_token_ids == {tokenizer.convert_tokens_to_ids("<|im_end|>")}


def test_mlx_lm_finds_thinking_and_json_tools(tokenizer: Any) -> None:
    assert tokenizer.has_thinking
    assert tokenizer.has_tool_calling
    assert tokenizer.init_kwargs["tool_parser_type"] == "json_tools"
