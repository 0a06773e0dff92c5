"""What the parameters that OpenAI's three APIs share mean: sampling, stops, thinking.

Pure functions, no web framework. Any thread.
"""

from api.dialects.openai.parameters import GenerationParams
from api.dialects.shared.effort import asks_for_thinking
from api.dialects.shared.extension import scoped
from api.dialects.shared.sampling import nucleus, token_biases
from api.dialects.shared.stops import stop_strings
from engine import Sampling, StopRules, checked_token_ids

_HOSTED_MAX_STOPS = 4
# The vendor's seeds are signed; a generator of random numbers takes them as they are in memory.
_SEEDS = 2**64


def sampling_of(params: GenerationParams) -> Sampling:
    """Return how tokens are to be drawn.

    Raises:
        ApiError: A bias is for no token id.
    """
    top_p, top_k = nucleus(params.top_p, params.top_k)
    return Sampling(
        temperature=params.temperature,
        top_p=top_p,
        top_k=top_k,
        min_p=params.min_p,
        repetition_penalty=params.repetition_penalty,
        presence_penalty=params.presence_penalty,
        frequency_penalty=params.frequency_penalty,
        logit_bias=token_biases(params.logit_bias, ("logit_bias",)),
        seed=None if params.seed is None else params.seed % _SEEDS,
    )


def stops_of(params: GenerationParams, *, strict: bool) -> StopRules:
    """Return where an answer stops.

    Args:
        params: The request.
        strict: Refuse more stops than the hosted API takes.

    Raises:
        ApiError: ``stop`` is neither a string nor a list nor null.
        InvalidRequest: One of the stops is wrong; the message names its index.
    """
    rules = StopRules(
        strings=stop_strings(params.stop, ("stop",), most=_HOSTED_MAX_STOPS if strict else None),
        token_ids=checked_token_ids(params.stop_token_ids or ()),
        include_stop=bool(params.include_stop_str_in_output),
        ignore_eos=bool(params.ignore_eos),
        min_tokens=params.min_tokens or 0,
    )
    return scoped(rules, params.fullstop)


def thinking_of(params: GenerationParams, effort: str | None) -> bool | None:
    """Return the switch that is nearest to the template; None leaves it to the template.

    Args:
        params: The request.
        effort: The effort of reasoning that the API's own field asks for.
    """
    kwargs = params.chat_template_kwargs
    if kwargs is not None and kwargs.enable_thinking is not None:
        return kwargs.enable_thinking
    if params.enable_thinking is not None:
        return params.enable_thinking
    if effort is not None:
        return asks_for_thinking(effort)
    return None
