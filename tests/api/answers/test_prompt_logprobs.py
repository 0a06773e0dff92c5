"""Log-probabilities of a prompt, in the dialects that report them, compared with plain MLX."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm
import pytest

from tests.api.conftest import Site

TEXT = "Count from 1 to 3: über 数!"
OTHER = "Count from 1 to 5, one number per"
STREAMED = pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])


class Plain:
    """The model as mlx-lm loads it, without the engine."""

    def __init__(self, folder: Path) -> None:
        self.model, self.tokenizer = mlx_lm.load(str(folder))[:2]

    def ids(self, text: str) -> list[int]:
        found: list[int] = self.tokenizer.encode(text)
        return found

    def rows(self, ids: Sequence[int]) -> list[list[float]]:
        """Return the log-probabilities after each token."""
        logits = self.model(mx.array([list(ids)]))[0].astype(mx.float32)
        found = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
        rows: list[list[float]] = found.tolist()  # type: ignore[assignment]
        return rows

    def logprobs(self, ids: Sequence[int]) -> list[float]:
        rows = self.rows(ids)
        return [row[token] for row, token in zip(rows, ids[1:], strict=False)]


@pytest.fixture(scope="module")
def plain(demo_model_path: Path) -> Plain:
    return Plain(demo_model_path)


def completed(site: Site, is_streamed: bool = False, **fields: Any) -> list[dict[str, Any]]:
    body = {"model": "m", "temperature": 0, "stream": is_streamed, **fields}
    answer = site.send("POST", "/v1/completions", body)
    assert answer.status == 200, answer.json
    if not is_streamed:
        choices: list[dict[str, Any]] = answer.json["choices"]
        return choices
    found: dict[int, dict[str, Any]] = {}
    for _, data in answer.events[:-1]:
        [choice] = json.loads(data)["choices"]
        known = found.setdefault(choice["index"], choice | {"text": "", "logprobs": None})
        known["text"] += choice["text"]
        known["finish_reason"] = choice["finish_reason"]
        if choice["logprobs"] is not None:
            known["logprobs"] = known["logprobs"] or {name: [] for name in choice["logprobs"]}
            for name, values in choice["logprobs"].items():
                known["logprobs"][name] += values or ()
    return [found[index] for index in sorted(found)]


@STREAMED
def test_an_echo_reports_every_token_of_the_prompt_and_of_the_answer(
    site: Site, plain: Plain, is_streamed: bool
) -> None:
    ids = plain.ids(TEXT)
    asked: dict[str, Any] = {"echo": True, "logprobs": 2, "max_tokens": 4, "ignore_eos": True}
    [by_text] = completed(site, is_streamed, prompt=TEXT, **asked)
    [by_ids] = completed(site, is_streamed, prompt=ids, **asked)
    assert by_text == by_ids
    found = by_text["logprobs"]
    assert by_text["text"].startswith(TEXT)

    assert found["token_logprobs"][0] is None
    assert found["top_logprobs"][0] is None
    assert found["token_logprobs"][1 : len(ids)] == pytest.approx(plain.logprobs(ids), abs=1e-4)
    assert len(found["tokens"]) == len(ids) + 4
    for row, own, top in zip(
        plain.rows(ids), found["token_logprobs"][1:], found["top_logprobs"][1:], strict=False
    ):
        assert sorted(top.values(), reverse=True)[:2] == pytest.approx(
            sorted(row, reverse=True)[:2], abs=1e-4
        )
        assert own in top.values()
    # Each token begins where its text does; a character of several tokens begins with the first.
    for token, place in zip(found["tokens"], found["text_offset"], strict=True):
        assert token.startswith("bytes:") or by_text["text"].startswith(token, place)
    assert found["text_offset"] == sorted(found["text_offset"])
    assert found["text_offset"][len(ids)] == len(TEXT)
    assert "".join(found["tokens"][len(ids) :]) == by_text["text"][len(TEXT) :]


def test_prompt_logprobs_have_the_form_of_vllm(site: Site, plain: Plain) -> None:
    ids = plain.ids(OTHER)
    [choice] = completed(site, prompt=OTHER, max_tokens=1, prompt_logprobs=2)
    first, *others = choice["prompt_logprobs"]
    assert first is None
    assert choice["text"]
    assert not choice["text"].startswith(OTHER)
    for token, row, told in zip(ids[1:], plain.rows(ids)[:-1], others, strict=True):
        own = told[str(token)]
        assert own["logprob"] == pytest.approx(row[token], abs=1e-4)
        assert own["rank"] == 1 + sum(one > row[token] for one in row)
        assert own["decoded_token"] == plain.tokenizer.decode([token])
        assert {1, 2} <= {one["rank"] for one in told.values()}
        assert len(told) in (2, 3)
    body = {"model": "m", "messages": [{"role": "user", "content": OTHER}], "prompt_logprobs": 0}
    chat = site.send("POST", "/v1/chat/completions", body | {"max_tokens": 1, "n": 2}).json
    assert len(chat["prompt_logprobs"]) == chat["usage"]["prompt_tokens"]
    refused = site.send("POST", "/v1/chat/completions", body | {"stream": True})
    assert (refused.status, refused.json["error"]["param"]) == (400, "prompt_logprobs")


def test_generate_answers_the_requests_of_sglangs_select(site: Site, plain: Plain) -> None:
    """Send the requests of ``RuntimeEndpoint.select`` in SGLang 0.5.23, and check what it reads."""
    context, choices = "Count from 1 to 3:", [" 1", " banana", " one two three"]
    nothing: dict[str, Any] = {"max_new_tokens": 0}
    first = site.send("POST", "/generate", {"text": context, "sampling_params": nothing}).json
    assert first["text"] == ""
    assert first["meta_info"]["finish_reason"] == {"type": "length", "length": 0}
    start = max(first["meta_info"]["prompt_tokens"] - 2, 0)
    answers = site.send(
        "POST",
        "/generate",
        {
            "text": [context + one for one in choices],
            "sampling_params": nothing | {"temperature": 0},
            "return_logprob": True,
            "return_text_in_logprobs": True,
            "logprob_start_len": start,
        },
    ).json
    told = [one["meta_info"]["input_token_logprobs"] for one in answers]
    # For token healing it reads the text of the first token, and subtracts its log-probability.
    assert all(context.endswith(tokens[1][2]) or tokens[1][2] for tokens in told)
    assert all(isinstance(token[0], float) for tokens in told for token in tokens)
    for choice, tokens in zip(choices, told, strict=True):
        assert [one[0] for one in tokens] == pytest.approx(
            plain.logprobs(plain.ids(context + choice))[start - 1 :], abs=1e-4
        )
    ids = [[one[1] for one in tokens] for tokens in told]
    alone = site.send(
        "POST",
        "/generate",
        {"input_ids": ids, "sampling_params": nothing, "return_logprob": True},
    ).json
    for tokens, one in zip(ids, alone, strict=True):
        first_logprob, *others = [i[0] for i in one["meta_info"]["input_token_logprobs"]]
        assert first_logprob is None
        assert others == pytest.approx(plain.logprobs(tokens), abs=1e-4)
        assert one["meta_info"]["output_token_logprobs"] == []
