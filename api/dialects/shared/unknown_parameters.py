"""Parameters that a route does not have: the refused ones, and those without effect on answers.

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
_NEUTRAL_NAMES = (
    # Who asks, and how the request is counted, kept, routed and billed.
    "betas bootstrap_host bootstrap_port bootstrap_room cache_salt client_metadata "
    "data_parallel_rank extra_key kv_transfer_params log_metrics metadata priority "
    "prompt_cache_key prompt_cache_options prompt_cache_retention request_id rid routing_key "
    "safety_identifier service_tier store user "
    # Memory, caches, threads, and how long a model stays loaded.
    "cache_control cache_prompt draft_num_predict f16_kv id_slot keep_alive low_vram main_gpu "
    "n_cache_reuse num_batch num_gpu num_gqa num_thread numa ttl use_mlock use_mmap "
    # Speculation changes the speed, not the answer.
    "draft_model num_draft_tokens num_speculative_tokens prediction speculative.n_max "
    "speculative.n_min speculative.p_min speculative.type "
    # Details of samplers and formats that are refused by their main parameter.
    "adaptive_decay dry_allowed_length dry_base dry_penalty_last_n dry_sequence_breakers "
    "dynatemp_exponent guided_decoding_backend logprob_start_len mirostat_eta mirostat_tau "
    "return_text_in_logprobs spaces_between_special_tokens top_logprobs_num "
    # Names and notes beside a schema.
    "include_obfuscation obfuscation response_format.description response_format.name"
)
NEUTRAL = frozenset(_NEUTRAL_NAMES.split())


class RefusedParameter(NamedTuple):
    """A parameter that is refused.

    Attributes:
        what: Its effect, as the error names it.
        off: Values that equal leaving it out; null always does.
        instead: How APIs spell the same; the error names the spelling of the route.
    """

    what: str
    off: tuple[object, ...] = FALSY
    instead: tuple[str, ...] = ()


def _refused(
    what: str, *names: str, off: tuple[object, ...] = FALSY, instead: tuple[str, ...] = ()
) -> dict[str, RefusedParameter]:
    return dict.fromkeys(names, RefusedParameter(what, off, instead))


REFUSED: Mapping[str, RefusedParameter] = {
    **_refused(
        "holding the answer to a format under this name",
        "ebnf",
        "format",
        "grammar",
        "grammar_lazy",
        "grammar_triggers",
        "guided_choice",
        "guided_grammar",
        "guided_json",
        "guided_json_object",
        "guided_regex",
        "json_schema",
        "output_format",
        "regex",
        "response_format",
        "structured_outputs",
        instead=(
            "text.format",
            "response_format",
            "output_config.format",
            "format",
            "sampling_params.json_schema",
        ),
    ),
    **_refused("holding the answer to structural tags", "structural_tag"),
    **_refused(
        "ignoring end tokens under this name", "ignore_eos", instead=("fullstop.ignore_eos",)
    ),
    **_refused(
        "stops in the answer under this name",
        "include_stop_str_in_output",
        "no_stop_trim",
        instead=("fullstop.include_stop",),
    ),
    **_refused(
        "a minimum length under this name",
        "min_new_tokens",
        "min_tokens",
        instead=("fullstop.min_tokens",),
    ),
    **_refused("ending an answer that repeats itself", "repetition_detection"),
    **_refused(
        "a stop under this name",
        "stop",
        "stop_sequences",
        "stop_token_ids",
        instead=("stop", "stop_sequences", "options.stop", "sampling_params.stop"),
    ),
    **_refused("a regular expression as a stop", "stop_regex"),
    **_refused("answering in the background", "background"),
    **_refused("choosing among several answers", "best_of", off=(*FALSY, 1)),
    **_refused("returning the prompt", "_debug_render_only", "echo", "return_full_text"),
    **_refused("several answers", "n", off=(*FALSY, 1)),
    **_refused("several answers under this name", "n_cmpl", off=(*FALSY, 1)),
    **_refused("tool calls as text", "parse_tool_calls", off=(True,)),
    **_refused(
        "another place for reasoning",
        "reasoning_format",
        off=(*EMPTY, "auto", "deepseek", "parsed"),
    ),
    **_refused("another place for reasoning", "reasoning_in_content"),
    **_refused("returning hidden states", "return_hidden_states"),
    **_refused(
        "returning token ids", "return_token_ids", "return_tokens", "return_tokens_as_token_ids"
    ),
    **_refused("text of special tokens in the answer", "skip_special_tokens", off=(True,)),
    **_refused(
        "log-probabilities under this name",
        "logprob_token_ids",
        "token_ids_logprob",
        "logprobs",
        "n_probs",
        "return_logprob",
        "top_logprobs",
        "top_n_tokens",
        instead=("top_logprobs",),
    ),
    **_refused("the log-probabilities of a prompt", "prompt_logprobs", off=(False,)),
    **_refused("adaptive sampling", "adaptive_target", off=(*FALSY, -1)),
    **_refused("a list of allowed tokens", "allowed_token_ids"),
    **_refused("a list of forbidden words", "bad_words", "bad_words_ids"),
    **_refused("code in a request", "custom_logit_processor", "logits_processors"),
    **_refused("DRY sampling", "dry_multiplier"),
    **_refused("a changing temperature", "dynatemp_range"),
    **_refused("guidance by another prompt", "guidance_scale", off=(*FALSY, 1)),
    **_refused("a penalty on length", "length_penalty", off=(*FALSY, 1)),
    **_refused("biases of tokens on this route", "logit_bias"),
    **_refused("Mirostat sampling", "mirostat", "mirostat_mode"),
    **_refused("guidance by another prompt", "negative_prompt"),
    **_refused("a limit on repeated words", "no_repeat_ngram_size"),
    **_refused("beam search", "num_beams", off=(*FALSY, 1)),
    **_refused("contrastive search", "penalty_alpha"),
    **_refused("quadratic sampling", "smoothing_factor"),
    **_refused("tail-free sampling", "tfs", "tfs_z", off=(*FALSY, 1)),
    **_refused("top-a sampling", "top_a"),
    **_refused("top-n-sigma sampling", "top_n_sigma", off=(*FALSY, -1)),
    **_refused("typical sampling", "typical", "typical_p", off=(*FALSY, 1)),
    **_refused("beam search", "use_beam_search"),
    **_refused("watermarks", "watermark"),
    **_refused("choosing an adapter", "adapter_id", "adapters", "lora", "lora_path"),
    **_refused("a prompt without the tokenizer's own tokens", "add_special_tokens", off=(True,)),
    **_refused(
        "input other than text",
        "audio_data",
        "image_data",
        "images",
        "input_embeds",
        "multimodal_data",
        "prompt_embeds",
        "video_data",
    ),
    **_refused("a chat template in a request", "chat_template", "template"),
    **_refused("keeping conversations", "conversation", off=()),
    **_refused("the context of an earlier answer", "context"),
    **_refused("documents beside the messages", "documents"),
    **_refused("filling in the middle", "input_extra", "input_prefix", "input_suffix", "suffix"),
    **_refused(
        "a system prompt under this name",
        "instructions",
        "system",
        instead=("system", "instructions"),
    ),
    **_refused("a prompt under this name", "inputs"),
    **_refused("vectors of other lengths than 1", "normalize", off=(True,)),
    **_refused("parameters in an object of this name", "parameters"),
    **_refused("keeping sessions", "session_params"),
    **_refused("truncating the prompt", "truncate_prompt_tokens", off=(-1, 0)),
    **_refused("functions under this name", "functions", instead=("tools",)),
    **_refused("a choice of tools on this route", "tool_choice", off=(*EMPTY, "auto")),
    **_refused("tools on this route", "tools"),
    **_refused("searching the web", "web_search_options", off=()),
}


def is_off(value: object, off: tuple[object, ...]) -> bool:
    """Whether a value equals leaving its parameter out; 0 does not equal false, 1 not true."""
    return value is None or any(
        isinstance(value, bool) == isinstance(other, bool) and value == other for other in off
    )
