"""Converts requests of ``/generate`` to the engine's, and back. Pure functions."""

import json
import re
from dataclasses import replace
from typing import Any

from api.dialects.sglang.wire import MAX_PROMPTS, GenerateParams, SamplingParams
from api.dialects.shared.inspector_bodies import (
    JsonObject,
    picture_url,
    sampling_and_stops,
)
from api.dialects.shared.parameters import (
    SGLANG_STOP_OPTIONS,
    ReadContext,
    choices_of,
    json_form,
    sampling_of,
    stop_options_of,
    stop_strings,
    text_constraint,
    token_limit,
    with_own_options,
)
from api.dialects.shared.requests import Content
from api.service.errors import FieldPath, invalid
from engine.stopping.rules import StopRules, checked_token_ids
from engine.values.request import (
    PICTURE_MARK,
    GenerationRequest,
    LimitSource,
    OutputConstraint,
    Picture,
    TraceLevel,
)
from engine.values.tokens import PromptScoring

_META = re.compile(r"[\\.+*?()|\[\]{}^$#&~-]")


def requests_from_wire(params: GenerateParams, context: ReadContext) -> list[GenerationRequest]:
    """Return one generation for each prompt and each of its ``n``."""
    sampling = params.sampling_params or SamplingParams()
    common = GenerationRequest(
        sampling=sampling_of(sampling, ("sampling_params",)),
        stops=with_own_options(
            StopRules.of(
                *stop_strings(sampling.stop, ("sampling_params", "stop")),
                token_ids=checked_token_ids(sampling.stop_token_ids or ()),
            ).with_options(stop_options_of(sampling, SGLANG_STOP_OPTIONS)),
            params.fullstop,
            context,
        ),
        max_tokens=token_limit(sampling.max_new_tokens),
        max_tokens_from=LimitSource.REQUEST
        if "max_new_tokens" in sampling.model_fields_set
        else LimitSource.API,
        # Every answer contains the ids of the sampled tokens.
        trace=TraceLevel.FULL if params.return_logprob else TraceLevel.STOPS,
        top_logprobs=(params.top_logprobs_num or 0) if params.return_logprob else 0,
        prompt_scoring=_prompt_scoring(params, sampling),
        constraint=_constraint(sampling),
        allows_more_keys=params.fullstop.additional_properties,
    )
    has_note = context.allows_image_note(params.fullstop, is_new=True)
    requests = [
        choice
        for prompt, pictures in _prompts_with_pictures(params, has_note=has_note)
        for choice in choices_of(replace(common, prompt=prompt, pictures=pictures), sampling.n or 1)
    ]
    if len(requests) > MAX_PROMPTS:
        raise invalid(
            ("sampling_params", "n"),
            f"asks for {len(requests)} answers; at most {MAX_PROMPTS} are possible",
        )
    return requests


def is_batch(params: GenerateParams) -> bool:
    """Whether the answer is a list: there are several prompts, or several answers to one."""
    value = params.text if params.text is not None else params.input_ids
    return (isinstance(value, list) and not isinstance(value[0], int)) or _count(params) > 1


def answer_count(params: GenerateParams) -> int:
    """Return how many answers a request has."""
    return len(_prompts(params)) * _count(params)


def _count(params: GenerateParams) -> int:
    return (params.sampling_params or SamplingParams()).n or 1


def _prompts(params: GenerateParams) -> list[str | tuple[int, ...]]:
    if (params.text is None) == (params.input_ids is None):
        raise invalid(("text",), "give either text or input_ids")
    if isinstance(params.text, str):
        return [params.text]
    if params.text is not None:
        return list(params.text)
    ids: list[Any] = params.input_ids or []
    return [tuple(ids)] if isinstance(ids[0], int) else [tuple(prompt) for prompt in ids]


def _prompts_with_pictures(
    params: GenerateParams, *, has_note: bool
) -> list[tuple[str | tuple[int, ...], tuple[Picture, ...]]]:
    """Return each prompt with its pictures: one or a list for the only prompt, else a list each.

    The notes for pictures that are not read come before a text; token ids take none.
    """
    prompts, given = _prompts(params), params.image_data
    path: FieldPath = ("image_data",)
    if given is None:
        return [(prompt, ()) for prompt in prompts]
    is_single = len(prompts) == 1
    each: Any = [given] if is_single else given
    if is_single and isinstance(given, list) and len(given) == 1 and isinstance(given[0], list):
        each = given
    if not isinstance(each, list) or len(each) != len(prompts):
        raise invalid(path, f"must be a list for {len(prompts)} prompts")
    read: list[tuple[str | tuple[int, ...], tuple[Picture, ...]]] = []
    for index, (prompt, images) in enumerate(zip(prompts, each, strict=True)):
        content, place = Content(), path if is_single else (*path, index)
        may_note = has_note and isinstance(prompt, str)
        for image in images if isinstance(images, list) else [images] if images else []:
            content.add_media(image, place, has_note=may_note)
        if isinstance(prompt, str):
            prompt = "\n".join(filter(None, (*content.text.split(PICTURE_MARK), prompt)))
        read.append((prompt, tuple(content.pictures)))
    return read


def _prompt_scoring(params: GenerateParams, sampling: SamplingParams) -> PromptScoring | None:
    """Return which tokens of the prompts have logprobs in the answer."""
    if not params.return_logprob:
        return None
    start = params.logprob_start_len
    if start is None or start < 0:
        if sampling.max_new_tokens != 0:
            return None
        start = 0  # without an answer, only the prompt has logprobs
    return PromptScoring(start, params.top_logprobs_num or 0)


def _constraint(sampling: SamplingParams) -> OutputConstraint | None:
    forms = {
        "json_schema": json_form(sampling.json_schema, ("sampling_params", "json_schema")),
        "regex": text_constraint("regex", sampling.regex),
        "ebnf": text_constraint("grammar", sampling.ebnf),
    }
    names = [name for name, constraint in forms.items() if constraint is not None]
    if len(names) > 1:
        raise invalid(
            ("sampling_params", names[1]),
            f"the format of the answer is given twice; leave {names[0]} or {names[1]} out",
        )
    return forms[names[0]] if names else None


def request_body(request: GenerationRequest, model: str, prompt: str) -> JsonObject | None:
    """Return the body that asks for a generation; with pictures, the prompt has marks for them."""
    pictures = request.all_pictures
    if pictures and not prompt:
        return None
    raw = request.prompt
    body: JsonObject = {"input_ids": list(raw)} if isinstance(raw, tuple) else {"text": prompt}
    if pictures:
        body["image_data"] = [picture_url(picture) for picture in pictures]
    body["sampling_params"] = {
        **sampling_and_stops(request, SGLANG_STOP_OPTIONS, {"seed": "sampling_seed"}),
        # Without the field the answer would have the default, 128 tokens; null is no limit.
        "max_new_tokens": request.max_tokens,
        **_form(request.constraint),
    }
    scoring = request.prompt_scoring
    if scoring is not None:
        body |= {
            "return_logprob": True,
            "logprob_start_len": scoring.start,
            "top_logprobs_num": scoring.top,
        }
    return body


def _form(constraint: OutputConstraint | None) -> JsonObject:
    if constraint is None:
        return {}
    if (form := constraint.text_form) is None:
        return {"json_schema": json.dumps(dict(constraint.json_schema or {"type": "object"}))}
    if form.grammar is not None:
        return {"ebnf": form.grammar}
    return {"regex": form.regex or "|".join(_META.sub(r"\\\g<0>", text) for text in form.choices)}
