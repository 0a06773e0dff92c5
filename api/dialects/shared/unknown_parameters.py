"""Parameters that a route does not have: the refused ones, and those without effect on answers.

A field of a request that its route does not know belongs to another server, or to a newer version
of the vendor's API. If the form of the answer depends on it, the request is refused (``REFUSED``).
All others are named in the header ``x-fullstop-not-applied``, unless they have no effect on answers
anywhere (``NEUTRAL``) or have the value that means the default (``DEFAULTS``). Pure data.
"""

from collections.abc import Mapping

# Values that equal leaving a parameter out: of texts and collections, and of all parameters.
EMPTY: tuple[object, ...] = ("", [], {})
FALSY: tuple[object, ...] = (*EMPTY, False, 0)
# Objects whose parameters mean the same as at the top level.
PARAMETER_OBJECTS = frozenset({"options", "sampling_params", "structured_outputs"})
# Values that mean the default; of parameters that are not listed, FALSY does.
DEFAULTS: Mapping[str, tuple[object, ...]] = {
    "adaptive_target": (*FALSY, -1),
    "add_generation_prompt": (True,),
    "add_special_tokens": (True,),
    "best_of": (*FALSY, 1),
    "conversation": (),
    "do_sample": (True,),
    "enable_thinking": (),
    "encoder_repetition_penalty": (1,),
    "guidance_scale": (*FALSY, 1),
    "include_reasoning": (True,),
    "length_penalty": (*FALSY, 1),
    "n": (*FALSY, 1),
    "n_cmpl": (*FALSY, 1),
    "normalize": (True,),
    "num_beams": (*FALSY, 1),
    "parallel_tool_calls": (True,),
    "parse_tool_calls": (True,),
    "penalize_newline": (True,),
    "prompt_logprobs": (False,),
    "reasoning_format": (*EMPTY, "auto", "deepseek", "parsed"),
    "repeat_penalty": (1,),
    "repetition_penalty": (1,),
    "separate_reasoning": (True,),
    "skip_special_tokens": (True,),
    "stream_reasoning": (True,),
    "tfs": (*FALSY, 1),
    "tfs_z": (*FALSY, 1),
    "think": (),
    "tool_choice": (*EMPTY, "auto"),
    "top_n_sigma": (*FALSY, -1),
    "top_p": (1,),
    "truncate": (False,),
    "truncate_prompt_tokens": (-1, 0),
    "truncation": ("auto", "disabled"),
    "typical": (*FALSY, 1),
    "typical_p": (*FALSY, 1),
    "web_search_options": (),
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
# Parameters on which the form of the answer depends, by their effect, as errors name it.
_REFUSED_NAMES = {
    "holding the answer to a format under this name": (
        "ebnf format grammar grammar_lazy grammar_triggers guided_choice guided_grammar "
        "guided_json guided_json_object guided_regex json_schema output_format regex "
        "response_format structured_outputs"
    ),
    "holding the answer to structural tags": "structural_tag",
    "ignoring end tokens under this name": "ignore_eos",
    "stops in the answer under this name": "include_stop_str_in_output no_stop_trim",
    "a minimum length under this name": "min_new_tokens min_tokens",
    "ending an answer that repeats itself under this name": "repetition_detection",
    "a stop under this name": "stop stop_sequences stop_token_ids",
    "a regular expression as a stop": "stop_regex",
    "an answer that is the summary of the conversation": "compaction",
    "answering in the background": "background",
    "calling MCP servers": "mcp_servers",
    "choosing among several answers": "best_of",
    "returning the prompt": "_debug_render_only echo return_full_text",
    "several answers": "n",
    "several answers under this name": "n_cmpl",
    "tool calls as text": "parse_tool_calls",
    "another place for reasoning": "reasoning_format reasoning_in_content",
    "returning hidden states": "return_hidden_states",
    "returning token ids": "return_token_ids return_tokens return_tokens_as_token_ids",
    "text of special tokens in the answer": "skip_special_tokens",
    "log-probabilities under this name": (
        "logprob_token_ids token_ids_logprob logprobs n_probs return_logprob top_logprobs "
        "top_n_tokens"
    ),
    "the log-probabilities of a prompt": "prompt_logprobs",
    "adaptive sampling": "adaptive_target",
    "a list of allowed tokens": "allowed_token_ids",
    "a list of forbidden words": "bad_words bad_words_ids",
    "code in a request": "custom_logit_processor logits_processors",
    "DRY sampling": "dry_multiplier",
    "a changing temperature": "dynatemp_range",
    "guidance by another prompt": "guidance_scale negative_prompt",
    "a penalty on length": "length_penalty",
    "biases of tokens on this route": "logit_bias",
    "Mirostat sampling": "mirostat mirostat_mode",
    "a limit on repeated words": "no_repeat_ngram_size",
    "beam search": "num_beams use_beam_search",
    "contrastive search": "penalty_alpha",
    "quadratic sampling": "smoothing_factor",
    "tail-free sampling": "tfs tfs_z",
    "top-a sampling": "top_a",
    "top-n-sigma sampling": "top_n_sigma",
    "typical sampling": "typical typical_p",
    "watermarks": "watermark",
    "choosing an adapter under this name": "adapter_id adapters lora lora_path",
    "a prompt without the tokenizer's own tokens": "add_special_tokens",
    "input other than text": (
        "audio_data images input_embeds multimodal_data prompt_embeds video_data"
    ),
    "a chat template in a request": "chat_template template",
    "keeping conversations": "conversation",
    "the context of an earlier answer": "context",
    "documents beside the messages": "documents",
    "filling in the middle": "input_extra input_prefix input_suffix suffix",
    "a system prompt under this name": "instructions system",
    "a prompt under this name": "inputs",
    "vectors of other lengths than 1": "normalize",
    "parameters in an object of this name": "parameters",
    "keeping sessions": "session_params",
    "truncating the prompt": "truncate_prompt_tokens",
    "functions under this name": "functions",
    "a choice of tools on this route": "tool_choice",
    "tools on this route": "tools",
    "searching the web": "web_search_options",
}
REFUSED = {name: effect for effect, names in _REFUSED_NAMES.items() for name in names.split()}
# How APIs spell the same; the error names the spelling of the route.
SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "holding the answer to a format under this name": (
        "text.format",
        "response_format",
        "output_config.format",
        "format",
        "sampling_params.json_schema",
    ),
    "ignoring end tokens under this name": ("fullstop.ignore_eos",),
    "stops in the answer under this name": ("fullstop.include_stop",),
    "a minimum length under this name": ("fullstop.min_tokens",),
    "ending an answer that repeats itself under this name": ("fullstop.repetition_detection",),
    "a stop under this name": ("stop", "stop_sequences", "options.stop", "sampling_params.stop"),
    "log-probabilities under this name": ("top_logprobs",),
    "a system prompt under this name": ("system", "instructions"),
    "functions under this name": ("tools",),
    "choosing an adapter under this name": ("model", "lora_path"),
}


def is_off(value: object, off: tuple[object, ...]) -> bool:
    """Whether a value equals leaving its parameter out; 0 does not equal false, 1 not true."""
    return value is None or any(
        isinstance(value, bool) == isinstance(other, bool) and value == other for other in off
    )
