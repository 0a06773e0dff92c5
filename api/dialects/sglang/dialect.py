"""SGLang's native API: raw prompts, and queries about the server. Runs on the server's loop.

https://docs.sglang.ai/basic_usage/native_api.html
"""

from collections.abc import Mapping
from typing import ClassVar

from api.dialects.sglang.read import request_body, requests_from_wire
from api.dialects.sglang.wire import (
    GenerateAnswers,
    GenerateParams,
    SglangErrorAnswer,
    SglangModel,
)
from api.dialects.sglang.write import GenerateEncoder, answer_id, error_to_wire, write_answers
from api.dialects.shared.dialect import AnswerRoute, Dialect, Head, QueryRoute
from api.transport.models import loaded_model
from api.transport.record import RequestRecord
from api.transport.service import Service


class GenerateRoute(AnswerRoute[GenerateParams]):
    """``POST /generate``."""

    path = "/generate"
    summary = "SGLang's native API: raw prompts"
    request = GenerateParams
    answer = GenerateAnswers
    operation = "text_completion"
    read = staticmethod(requests_from_wire)
    write_whole = staticmethod(write_answers)
    encoder = staticmethod(GenerateEncoder)

    async def admit(self, service: Service, params: GenerateParams) -> None:
        """Accept every request: requests name no model."""

    def field_names(self, params: GenerateParams) -> Mapping[str, str]:
        return {"prompt": "text" if params.text is not None else "input_ids"}

    def answer_id(self, params: GenerateParams, head: Head) -> str:
        return answer_id(params, head, 0)


async def get_model_info(service: Service, record: RequestRecord, _: None) -> SglangModel:
    """Describe the loaded model, without its path on this computer."""
    model = await loaded_model(service)
    return {
        "model_path": model.id,
        "tokenizer_path": model.id,
        "is_generation": True,
        "preferred_sampling_params": None,
        "max_context_length": model.context_length,
        "vocab_size": model.vocabulary_size,
        "model_type": model.architecture,
    }


class Generate(Dialect):
    """SGLang's native API."""

    name = "Generate"
    title = "SGLang /generate"
    vendor = "SGLang"
    reference = "https://docs.sglang.ai/basic_usage/native_api.html"
    error_type = SglangErrorAnswer
    field_names: ClassVar[Mapping[str, str]] = {
        "stops.strings": "sampling_params.stop",
        "stops.token_ids": "sampling_params.stop_token_ids",
        "max_tokens": "sampling_params.max_new_tokens",
        "n": "sampling_params.n",
        "sampling.logit_bias": "sampling_params.logit_bias",
        "top_logprobs": "top_logprobs_num",
        "prompt_scoring.start": "logprob_start_len",
        "prompt_scoring.top": "top_logprobs_num",
        "constraint.json_schema": "sampling_params.json_schema",
        "constraint.regex": "sampling_params.regex",
        "constraint.grammar": "sampling_params.ebnf",
        "constraint": "sampling_params",
        # The engine uses this name only to say that the prompt is empty.
        "messages": "text",
    }
    answers = (GenerateRoute(),)
    queries = (
        QueryRoute(
            method="GET",
            path="/get_model_info",
            summary="The loaded model, for SGLang's clients",
            reply=get_model_info,
            answer=SglangModel,
        ),
    )
    render_error = staticmethod(error_to_wire)
    request_body = staticmethod(request_body)
