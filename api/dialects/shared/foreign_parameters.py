"""Parameters that a route does not have: which are refused, and which cannot change an answer.

A field of a request that its route does not know belongs to another server, or to a newer version
of the vendor's API. If the form of the answer depends on it, the request is refused (``REFUSED``).
All others are named in the header ``x-fullstop-not-applied``, unless they have no effect on answers
anywhere (``NEUTRAL``) or have the value that means the default (``DEFAULTS``). Pure data.
"""

from collections.abc import Mapping
from typing import NamedTuple

# Values that equal leaving a parameter out: of texts and collections, and of all parameters.
EMPTY: tuple[object, ...] = ("", [], {})
FALSY: tuple[object, ...] = (*EMPTY, False, 0)


class RefusedParameter(NamedTuple):
    """A parameter that is refused.

    Attributes:
        what: What it would do, as the error names it.
        off: Values that equal leaving it out; null always does.
        instead: How APIs spell the same; the error names the spelling of the route.
    """

    what: str
    off: tuple[object, ...] = FALSY
    instead: tuple[str, ...] = ()


_FORMATS = (
    "text.format",
    "response_format",
    "output_config.format",
    "format",
    "sampling_params.json_schema",
)
_SCHEMA = RefusedParameter("holding the answer to a format under this name", FALSY, _FORMATS)
_TAGS = RefusedParameter("holding the answer to structural tags")
_STOPS = RefusedParameter(
    "a stop under this name",
    FALSY,
    ("stop", "stop_sequences", "options.stop", "sampling_params.stop"),
)
_KEPT_STOPS = RefusedParameter(
    "stops in the answer under this name", FALSY, ("fullstop.include_stop",)
)
_MIN_LENGTH = RefusedParameter("a minimum length under this name", FALSY, ("fullstop.min_tokens",))
_SYSTEM = RefusedParameter("a system prompt under this name", FALSY, ("system", "instructions"))
_OTHER_INPUT = RefusedParameter("input other than text")
_ADAPTER = RefusedParameter("choosing an adapter")
_LOGPROBS = RefusedParameter("log-probabilities under this name", FALSY, ("top_logprobs",))
_ECHO = RefusedParameter("returning the prompt")
_TOKEN_IDS = RefusedParameter("returning token ids")
_FUNCTIONS = RefusedParameter("functions under this name", FALSY, ("tools",))
_TOOLS = RefusedParameter("tools on this route")
_CODE = RefusedParameter("code in a request")
_TEMPLATE = RefusedParameter("a chat template in a request")
_MIROSTAT = RefusedParameter("Mirostat sampling")
_SPECIAL = RefusedParameter("text of special tokens in the answer", (True,))

REFUSED: Mapping[str, RefusedParameter] = {
    # Output formats.
    "ebnf": _SCHEMA,
    "format": _SCHEMA,
    "grammar": _SCHEMA,
    "grammar_lazy": _SCHEMA,
    "grammar_triggers": _SCHEMA,
    "guided_choice": _SCHEMA,
    "guided_grammar": _SCHEMA,
    "guided_json": _SCHEMA,
    "guided_json_object": _SCHEMA,
    "guided_regex": _SCHEMA,
    "json_schema": _SCHEMA,
    "output_format": _SCHEMA,
    "regex": _SCHEMA,
    "response_format": _SCHEMA,
    "structural_tag": _TAGS,
    "structured_outputs": _SCHEMA,
    # Where and how an answer ends.
    "ignore_eos": RefusedParameter(
        "ignoring end tokens under this name", FALSY, ("fullstop.ignore_eos",)
    ),
    "include_stop_str_in_output": _KEPT_STOPS,
    "min_new_tokens": _MIN_LENGTH,
    "min_tokens": _MIN_LENGTH,
    "no_stop_trim": _KEPT_STOPS,
    "repetition_detection": RefusedParameter("ending an answer that repeats itself"),
    "stop": _STOPS,
    "stop_regex": RefusedParameter("a regular expression as a stop"),
    "stop_sequences": _STOPS,
    "stop_token_ids": _STOPS,
    # How many answers, when they come, and what stands in them.
    "background": RefusedParameter("answering in the background"),
    "best_of": RefusedParameter("choosing among several answers", (*FALSY, 1)),
    "_debug_render_only": _ECHO,
    "echo": _ECHO,
    "n": RefusedParameter("several answers", (*FALSY, 1)),
    "n_cmpl": RefusedParameter("several answers under this name", (*FALSY, 1)),
    "parse_tool_calls": RefusedParameter("tool calls as text", (True,)),
    "reasoning_format": RefusedParameter(
        "another place for reasoning", (*EMPTY, "auto", "deepseek", "parsed")
    ),
    "reasoning_in_content": RefusedParameter("another place for reasoning"),
    "return_full_text": _ECHO,
    "return_hidden_states": RefusedParameter("returning hidden states"),
    "return_token_ids": _TOKEN_IDS,
    "return_tokens": _TOKEN_IDS,
    "return_tokens_as_token_ids": _TOKEN_IDS,
    "skip_special_tokens": _SPECIAL,
    # Log-probabilities.
    "logprob_token_ids": _LOGPROBS,
    "logprobs": _LOGPROBS,
    "n_probs": _LOGPROBS,
    "prompt_logprobs": RefusedParameter("the log-probabilities of a prompt", (False,)),
    "return_logprob": _LOGPROBS,
    "top_logprobs": _LOGPROBS,
    "top_n_tokens": _LOGPROBS,
    # Sampling.
    "adaptive_target": RefusedParameter("adaptive sampling", (*FALSY, -1)),
    "allowed_token_ids": RefusedParameter("a list of allowed tokens"),
    "bad_words": RefusedParameter("a list of forbidden words"),
    "bad_words_ids": RefusedParameter("a list of forbidden words"),
    "custom_logit_processor": _CODE,
    "dry_multiplier": RefusedParameter("DRY sampling"),
    "dynatemp_range": RefusedParameter("a changing temperature"),
    "guidance_scale": RefusedParameter("guidance by another prompt", (*FALSY, 1)),
    "length_penalty": RefusedParameter("a penalty on length", (*FALSY, 1)),
    "logit_bias": RefusedParameter("biases of tokens on this route"),
    "logits_processors": _CODE,
    "mirostat": _MIROSTAT,
    "mirostat_mode": _MIROSTAT,
    "negative_prompt": RefusedParameter("guidance by another prompt"),
    "no_repeat_ngram_size": RefusedParameter("a limit on repeated words"),
    "num_beams": RefusedParameter("beam search", (*FALSY, 1)),
    "penalty_alpha": RefusedParameter("contrastive search"),
    "smoothing_factor": RefusedParameter("quadratic sampling"),
    "tfs": RefusedParameter("tail-free sampling", (*FALSY, 1)),
    "tfs_z": RefusedParameter("tail-free sampling", (*FALSY, 1)),
    "top_a": RefusedParameter("top-a sampling"),
    "top_n_sigma": RefusedParameter("top-n-sigma sampling", (*FALSY, -1)),
    "typical": RefusedParameter("typical sampling", (*FALSY, 1)),
    "typical_p": RefusedParameter("typical sampling", (*FALSY, 1)),
    "use_beam_search": RefusedParameter("beam search"),
    "watermark": RefusedParameter("watermarks"),
    # The prompt.
    "adapter_id": _ADAPTER,
    "adapters": _ADAPTER,
    "add_special_tokens": RefusedParameter("a prompt without the tokenizer's own tokens", (True,)),
    "audio_data": _OTHER_INPUT,
    "chat_template": _TEMPLATE,
    "conversation": RefusedParameter("keeping conversations", ()),
    "context": RefusedParameter("the context of an earlier answer"),
    "documents": RefusedParameter("documents beside the messages"),
    "image_data": _OTHER_INPUT,
    "images": _OTHER_INPUT,
    "input_embeds": _OTHER_INPUT,
    "input_extra": RefusedParameter("filling in the middle"),
    "input_prefix": RefusedParameter("filling in the middle"),
    "input_suffix": RefusedParameter("filling in the middle"),
    "instructions": _SYSTEM,
    "inputs": RefusedParameter("a prompt under this name"),
    "lora": _ADAPTER,
    "lora_path": _ADAPTER,
    "multimodal_data": _OTHER_INPUT,
    "normalize": RefusedParameter("vectors of other lengths than 1", (True,)),
    "parameters": RefusedParameter("parameters in an object of this name"),
    "prompt_embeds": _OTHER_INPUT,
    "session_params": RefusedParameter("keeping sessions"),
    "suffix": RefusedParameter("filling in the middle"),
    "system": _SYSTEM,
    "template": _TEMPLATE,
    "truncate_prompt_tokens": RefusedParameter("truncating the prompt", (-1, 0)),
    "video_data": _OTHER_INPUT,
    # Tools.
    "functions": _FUNCTIONS,
    "tool_choice": RefusedParameter("a choice of tools on this route", (*EMPTY, "auto")),
    "tools": _TOOLS,
    "web_search_options": RefusedParameter("searching the web", ()),
}

# Objects whose parameters mean the same as at the top level.
PARAMETER_OBJECTS = frozenset({"options", "sampling_params", "structured_outputs"})

# Values that mean the default of parameters that are otherwise named.
DEFAULTS: Mapping[str, tuple[object, ...]] = {
    "add_generation_prompt": (True,),
    "do_sample": (True,),
    "enable_thinking": (),
    "encoder_repetition_penalty": (1,),
    "include_reasoning": (True,),
    "parallel_tool_calls": (True,),
    "penalize_newline": (True,),
    "repetition_penalty": (1,),
    "repeat_penalty": (1,),
    "separate_reasoning": (True,),
    "stream_reasoning": (True,),
    "think": (),
    "top_p": (1,),
    "truncate": (False,),
    "truncation": ("auto", "disabled"),
}

# No server answers otherwise because of these.
NEUTRAL = frozenset(
    {
        # Who asks, and how the request is counted, kept, routed and billed.
        "betas",
        "bootstrap_host",
        "bootstrap_port",
        "bootstrap_room",
        "cache_salt",
        "client_metadata",
        "data_parallel_rank",
        "extra_key",
        "kv_transfer_params",
        "log_metrics",
        "metadata",
        "priority",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "request_id",
        "rid",
        "routing_key",
        "safety_identifier",
        "service_tier",
        "store",
        "user",
        # Memory, caches, threads, and how long a model stays loaded.
        "cache_control",
        "cache_prompt",
        "draft_num_predict",
        "f16_kv",
        "id_slot",
        "keep_alive",
        "low_vram",
        "main_gpu",
        "n_cache_reuse",
        "num_batch",
        "num_gpu",
        "num_gqa",
        "num_thread",
        "numa",
        "ttl",
        "use_mlock",
        "use_mmap",
        # Speculation changes the speed, not the answer.
        "draft_model",
        "num_draft_tokens",
        "num_speculative_tokens",
        "prediction",
        "speculative.n_max",
        "speculative.n_min",
        "speculative.p_min",
        "speculative.type",
        # Details of samplers and formats that are refused by their main parameter.
        "adaptive_decay",
        "dry_allowed_length",
        "dry_base",
        "dry_penalty_last_n",
        "dry_sequence_breakers",
        "dynatemp_exponent",
        "guided_decoding_backend",
        "mirostat_eta",
        "mirostat_tau",
        "spaces_between_special_tokens",
        # Names and notes beside a schema.
        "include_obfuscation",
        "obfuscation",
        "response_format.description",
        "response_format.name",
    }
)


def is_off(value: object, off: tuple[object, ...]) -> bool:
    """Whether a value equals leaving its parameter out; 0 does not equal false, 1 not true."""
    return value is None or any(
        isinstance(value, bool) == isinstance(one, bool) and value == one for one in off
    )
