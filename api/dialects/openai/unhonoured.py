"""Request parameters of open servers that would change the answer and cannot be honoured here.

Clients of other servers send them to the OpenAI routes; each is refused by its name unless its
value switches it off. Only shapes and their check. Any thread.
"""

from typing import Any, NamedTuple

from pydantic.json_schema import SkipJsonSchema

from api.dialects.shared.body import WireModel
from api.transport.errors import unsupported


class UnhonouredParams(WireModel):
    """The parameters; documents do not speak of them."""

    # Forms of the answer other than JSON.
    ebnf: SkipJsonSchema[Any] = None
    grammar: SkipJsonSchema[Any] = None
    guided_choice: SkipJsonSchema[Any] = None
    guided_grammar: SkipJsonSchema[Any] = None
    guided_regex: SkipJsonSchema[Any] = None
    regex: SkipJsonSchema[Any] = None
    structural_tag: SkipJsonSchema[Any] = None
    # Which tokens are drawn.
    allowed_token_ids: SkipJsonSchema[Any] = None
    bad_words: SkipJsonSchema[Any] = None
    dry_multiplier: SkipJsonSchema[Any] = None
    length_penalty: SkipJsonSchema[Any] = None
    logits_processors: SkipJsonSchema[Any] = None
    mirostat: SkipJsonSchema[Any] = None
    tfs_z: SkipJsonSchema[Any] = None
    top_a: SkipJsonSchema[Any] = None
    typical_p: SkipJsonSchema[Any] = None
    use_beam_search: SkipJsonSchema[Any] = None
    xtc_probability: SkipJsonSchema[Any] = None
    # What the model reads.
    add_generation_prompt: SkipJsonSchema[Any] = None
    chat_template: SkipJsonSchema[Any] = None
    documents: SkipJsonSchema[Any] = None
    prompt_embeds: SkipJsonSchema[Any] = None
    truncate_prompt_tokens: SkipJsonSchema[Any] = None
    web_search_options: SkipJsonSchema[Any] = None
    # What the answer tells.
    prompt_logprobs: SkipJsonSchema[Any] = None
    skip_special_tokens: SkipJsonSchema[Any] = None


class _Refusal(NamedTuple):
    """What a parameter asks for, and the values beside null that do not ask for it."""

    what: str
    off: tuple[object, ...] = ()


_NOTHING: tuple[object, ...] = ("", [], {})
_REFUSALS = {
    "ebnf": _Refusal("holding the answer to a grammar", _NOTHING),
    "grammar": _Refusal("holding the answer to a grammar", _NOTHING),
    "guided_choice": _Refusal("holding the answer to a list of texts", _NOTHING),
    "guided_grammar": _Refusal("holding the answer to a grammar", _NOTHING),
    "guided_regex": _Refusal("holding the answer to a regular expression", _NOTHING),
    "regex": _Refusal("holding the answer to a regular expression", _NOTHING),
    "structural_tag": _Refusal("holding the answer to structural tags", _NOTHING),
    "allowed_token_ids": _Refusal("a list of allowed tokens", _NOTHING),
    "bad_words": _Refusal("a list of forbidden words", _NOTHING),
    "dry_multiplier": _Refusal("DRY sampling", (0,)),
    "length_penalty": _Refusal("a penalty on length", (0, 1)),
    "logits_processors": _Refusal("code of the request's own", _NOTHING),
    "mirostat": _Refusal("Mirostat sampling", (0,)),
    "tfs_z": _Refusal("tail-free sampling", (1,)),
    "top_a": _Refusal("top-a sampling", (0,)),
    "typical_p": _Refusal("typical sampling", (0, 1)),
    "use_beam_search": _Refusal("beam search", (False,)),
    "xtc_probability": _Refusal("XTC sampling", (0,)),
    "add_generation_prompt": _Refusal("a prompt without the beginning of the answer", (True,)),
    "chat_template": _Refusal("a template of the request's own", _NOTHING),
    "documents": _Refusal("documents beside the messages", _NOTHING),
    "prompt_embeds": _Refusal("input other than text", _NOTHING),
    "truncate_prompt_tokens": _Refusal("cutting the prompt", (-1, 0)),
    "web_search_options": _Refusal("searching the web"),
    "prompt_logprobs": _Refusal("returning the log-probabilities of a prompt", (False,)),
    "skip_special_tokens": _Refusal("text of special tokens in the answer", (True,)),
}


def refuse_unhonoured(params: UnhonouredParams) -> None:
    """Refuse a parameter that would change the answer.

    Raises:
        ApiError: One is there and not switched off; the error names it.
    """
    for name, refusal in _REFUSALS.items():
        if name not in params.model_fields_set:
            continue
        value = getattr(params, name)
        if value is not None and not any(_is_same(value, off) for off in refusal.off):
            raise unsupported((name,), refusal.what)


def _is_same(value: object, off: object) -> bool:
    """Whether two values are equal, where 0 is not the same as false."""
    return isinstance(value, bool) == isinstance(off, bool) and value == off
