"""Reads the stop and reasoning parameters that OpenAI's three APIs share.

Pure functions, no web framework. Any thread.
"""

from dataclasses import replace

from api.dialects.openai.parameters import GenerationParams, LastTurnParams, ScoringParams
from api.dialects.shared.parameters.effort import asks_for_thinking, budget_of
from api.dialects.shared.parameters.extension import scoped
from api.dialects.shared.parameters.stop_options import stop_options_of
from api.dialects.shared.parameters.stops import stop_strings
from api.transport.errors import invalid, unsupported
from engine import GenerationRequest, StopRules, checked_token_ids

_HOSTED_MAX_STOPS = 4


def stops_of(params: GenerationParams, *, strict: bool) -> StopRules:
    """Return the stop rules of a request."""
    rules = StopRules(
        strings=stop_strings(params.stop, ("stop",), most=_HOSTED_MAX_STOPS if strict else None),
        token_ids=checked_token_ids(params.stop_token_ids or ()),
    ).with_options(stop_options_of(params, "OpenAI"))
    return scoped(rules, params.fullstop)


def thinking_budget_of(params: GenerationParams, asked: int | None = None) -> int | None:
    """Return the reasoning budget in tokens; None for no limit."""
    kwargs = params.chat_template_kwargs
    own = (params.thinking_budget, params.thinking_token_budget)
    return budget_of(asked, *own, None if kwargs is None else kwargs.thinking_budget)


def thinking_of(params: GenerationParams, effort: str | None) -> bool | None:
    """Return whether to reason, by the most specific switch; None leaves it to the template."""
    kwargs = params.chat_template_kwargs
    if kwargs is not None and kwargs.enable_thinking is not None:
        return kwargs.enable_thinking
    if params.enable_thinking is not None:
        return params.enable_thinking
    if effort is not None:
        return asks_for_thinking(effort)
    return None


def with_last_turn(
    wanted: GenerationRequest, params: LastTurnParams, *, is_answered: bool = True
) -> GenerationRequest:
    """Return a request that treats a last turn of the assistant as asked.

    As on OpenAI's service and in vLLM, a new turn follows it unless the request says otherwise.
    https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html#extra-parameters_1
    """
    continues, opens = bool(params.continue_final_message), params.add_generation_prompt
    field = ("continue_final_message",)
    if continues and opens:
        raise invalid(
            field,
            "cannot be true together with add_generation_prompt: an answer either continues the "
            "last message or begins after it",
        )
    is_last = [turn.role for turn in wanted.messages[-1:]] == ["assistant"]
    if continues and not is_last:
        raise invalid(field, "is possible only where the last message is the assistant's")
    if is_answered and opens is False and not continues:
        raise unsupported(
            ("add_generation_prompt",), "an answer that is not opened after the last message"
        )
    is_open = continues or opens is not False
    return replace(wanted, opens_answer=is_open, continues_last=continues or not is_last)


def refuse_in_stream(params: ScoringParams) -> None:
    """Refuse to stream a prompt's log-probabilities, as the vendor does."""
    if params.prompt_logprobs is not None and params.stream:
        raise unsupported(("prompt_logprobs",), "log-probabilities of the prompt in a stream")
