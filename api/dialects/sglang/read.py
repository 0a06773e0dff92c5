"""Converts requests of ``/generate`` to the engine's, and back. Pure functions."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from api.dialects.sglang.wire import MAX_PROMPTS, GenerateParams, SamplingParams
from api.dialects.shared.parameters import (
    allows_more_keys,
    choices_of,
    grammar_form,
    regex_form,
    sampling_of,
    stop_options_of,
    stop_strings,
    token_limit,
    with_own_options,
)
from api.dialects.shared.requests import JsonObject, filled, sampling_and_stops
from api.transport.errors import invalid
from engine import (
    GenerationRequest,
    OutputConstraint,
    PromptScoring,
    StopRules,
    TraceLevel,
    checked_token_ids,
)

_MAX_TOP_LOGPROBS = 20


class _Scores(NamedTuple):
    """Which logprobs the client gets for one prompt and its answers."""

    scoring: PromptScoring | None
    top: int
    chosen: tuple[int, ...]


def requests_from_wire(params: GenerateParams, *, strict: bool = False) -> list[GenerationRequest]:
    """Return what a request asks for: one generation for each prompt and each of its ``n``.

    Takes and raises what ``ReadRequest`` does.
    """
    prompts = _prompts(params)
    samplings = _samplings(params, len(prompts))
    scores = _scores(params, len(prompts), samplings)
    wanted = [
        choice
        for prompt, sampling, told in zip(prompts, samplings, scores, strict=True)
        for choice in choices_of(_request(prompt, sampling, told, params), sampling.n or 1)
    ]
    if len(wanted) > MAX_PROMPTS:
        raise invalid(
            ("sampling_params", "n"),
            f"asks for {len(wanted)} answers; at most {MAX_PROMPTS} are possible",
        )
    return wanted


def is_batch(params: GenerateParams) -> bool:
    """Whether the answer is a list: there are several prompts, or several answers to one."""
    value = params.text if params.text is not None else params.input_ids
    if isinstance(value, list) and value and not isinstance(value[0], int):
        return True
    sampling = params.sampling_params
    return isinstance(sampling, SamplingParams) and (sampling.n or 1) > 1


def answer_count(params: GenerateParams) -> int:
    """Return how many answers a request has."""
    samplings = _samplings(params, len(_prompts(params)))
    return sum(sampling.n or 1 for sampling in samplings)


def prompt_name(params: GenerateParams) -> Mapping[str, str]:
    """Return the name of the prompt's field in the request."""
    return {"prompt": "text" if params.text is not None else "input_ids"}


def _prompts(params: GenerateParams) -> list[str | tuple[int, ...]]:
    if (params.text is None) == (params.input_ids is None):
        raise invalid(("text",), "give either text or input_ids")
    if isinstance(params.text, str):
        return [params.text]
    if params.text is not None:
        return list(params.text)
    ids: list[Any] = params.input_ids or []
    if isinstance(ids[0], int):
        return [tuple(ids)]
    return [tuple(prompt) for prompt in ids]


def _samplings(params: GenerateParams, prompts: int) -> list[SamplingParams]:
    given = params.sampling_params
    if isinstance(given, list):
        if len(given) != prompts:
            raise invalid(
                ("sampling_params",),
                f"has {len(given)} entries for {prompts} prompts; give as many",
            )
        return given
    return [given if given is not None else SamplingParams()] * prompts


def _request(
    prompt: str | tuple[int, ...], wanted: SamplingParams, told: _Scores, params: GenerateParams
) -> GenerationRequest:
    return GenerationRequest(
        prompt=prompt,
        sampling=sampling_of(wanted, "SGLang", ("sampling_params",)),
        stops=with_own_options(
            StopRules.of(
                *stop_strings(wanted.stop, ("sampling_params", "stop")),
                token_ids=checked_token_ids(wanted.stop_token_ids or ()),
            ).with_options(stop_options_of(wanted, "SGLang")),
            params.fullstop,
        ),
        max_tokens=token_limit(wanted.max_new_tokens),
        # Every answer contains the ids of the sampled tokens.
        trace=TraceLevel.FULL if params.return_logprob else TraceLevel.STOPS,
        top_logprobs=told.top,
        chosen_logprobs=told.chosen,
        prompt_scoring=told.scoring,
        constraint=_constraint(wanted),
        allows_more_keys=allows_more_keys(params.fullstop),
    )


def _constraint(wanted: SamplingParams) -> OutputConstraint | None:
    asked = {
        "json_schema": _json_constraint(wanted.json_schema),
        "regex": regex_form(wanted.regex),
        "ebnf": grammar_form(wanted.ebnf),
    }
    names = [name for name, constraint in asked.items() if constraint is not None]
    if len(names) > 1:
        raise invalid(
            ("sampling_params", names[1]),
            f"the format of the answer is given twice; leave {names[0]} or {names[1]} out",
        )
    return asked[names[0]] if names else None


def _json_constraint(text: str | dict[str, Any] | None) -> OutputConstraint | None:
    if text is None:
        return None
    if isinstance(text, dict):
        return OutputConstraint(json_schema=text)
    field = ("sampling_params", "json_schema")
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        raise invalid(field, "must be a JSON schema as JSON text") from None
    if not isinstance(schema, dict):
        raise invalid(field, "must be the text of a JSON object")
    return OutputConstraint(json_schema=schema)


def _scores(
    params: GenerateParams, prompts: int, samplings: Sequence[SamplingParams]
) -> list[_Scores]:
    """Return which logprobs the client gets for each prompt."""
    if not params.return_logprob:
        return [_Scores(None, 0, ())] * prompts
    starts = _for_each(params.logprob_start_len, prompts, "logprob_start_len")
    tops = _for_each(params.top_logprobs_num, prompts, "top_logprobs_num")
    ids = params.token_ids_logprob
    if ids and isinstance(ids[0], list):
        chosen: list[Any] = _for_each(ids, prompts, "token_ids_logprob")
    else:
        chosen = [ids] * prompts
    scores = []
    for start, top, some, sampling in zip(starts, tops, chosen, samplings, strict=True):
        if (top or 0) > _MAX_TOP_LOGPROBS:
            raise invalid(("top_logprobs_num",), f"must be from 0 to {_MAX_TOP_LOGPROBS}")
        if start is None or start < 0:
            # Without an answer, only the prompt has logprobs.
            start = 0 if sampling.max_new_tokens == 0 else None
        told = (top or 0, tuple(some or ()))
        scores.append(_Scores(None if start is None else PromptScoring(start, *told), *told))
    return scores


def _for_each(value: Any, prompts: int, field: str) -> list[Any]:
    """Return a value for each prompt: the same for all, or those of a list."""
    if not isinstance(value, list):
        return [value] * prompts
    if len(value) != prompts:
        raise invalid((field,), f"has {len(value)} entries for {prompts} prompts; give as many")
    return value


# -- the way back ------------------------------------------------------------------------------


_META = re.compile(r"[\\.+*?()|\[\]{}^$#&~-]")


def ask(request: GenerationRequest, model: str, prompt: str) -> JsonObject | None:
    """Return the body that asks for a generation, with its prompt as text or as token ids."""
    raw = request.prompt
    asked: JsonObject = {"input_ids": list(raw)} if isinstance(raw, tuple) else {"text": prompt}
    asked["sampling_params"] = {
        **sampling_and_stops(request, "SGLang"),
        **filled(
            max_new_tokens=request.max_tokens,
            **_form(request.constraint),
        ),
    }
    wanted = request.prompt_scoring
    if wanted is not None:
        asked |= {
            "return_logprob": True,
            "logprob_start_len": wanted.start,
            "top_logprobs_num": wanted.top,
            **filled(token_ids_logprob=list(wanted.token_ids)),
        }
    return asked


def _form(constraint: OutputConstraint | None) -> JsonObject:
    if constraint is None:
        return {}
    if (form := constraint.text_form) is None:
        return {"json_schema": json.dumps(dict(constraint.json_schema or {"type": "object"}))}
    if form.grammar is not None:
        return {"ebnf": form.grammar}
    return {"regex": form.regex or "|".join(map(_literal, form.choices))}


def _literal(text: str) -> str:
    """Return a regular expression that only this text matches."""
    return _META.sub(r"\\\g<0>", text)
