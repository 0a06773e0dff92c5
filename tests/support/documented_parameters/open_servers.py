"""What open servers accept in addition to the vendors' parameters, tried on every route.

A parameter is ``neutral`` where no answer depends on it. All others must be honoured, refused or
named wherever they are sent.
"""

from tests.support.documented_parameters import SCHEMA, Documented, Treatment, ollama, sglang

_ANY: Treatment = "named"  # or honoured, or refused

# https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html
VLLM: Documented = {
    "add_generation_prompt": (False, _ANY),
    "add_special_tokens": (False, _ANY),
    "allowed_token_ids": ([5], _ANY),
    "bad_words": (["no"], _ANY),
    "best_of": (3, _ANY),
    "cache_salt": ("a", "neutral"),
    "chat_template": ("{{ messages }}", _ANY),
    "chat_template_kwargs": ({"preserve_thinking": True}, _ANY),
    "continue_final_message": (True, _ANY),
    "documents": ([{"text": "a"}], _ANY),
    "echo": (True, _ANY),
    "guided_choice": (["a", "b"], _ANY),
    "guided_decoding_backend": ("xgrammar", "neutral"),
    "guided_grammar": ('root ::= "a"', _ANY),
    "guided_json": (SCHEMA, _ANY),
    "guided_regex": ("a+", _ANY),
    "guided_whitespace_pattern": (" ", _ANY),
    "ignore_eos": (True, _ANY),
    "include_reasoning": (False, _ANY),
    "include_stop_str_in_output": (True, _ANY),
    "kv_transfer_params": ({"a": 1}, "neutral"),
    "length_penalty": (0.5, _ANY),
    "logits_processors": (["a"], _ANY),
    "logprob_token_ids": ([5], _ANY),
    "media_io_kwargs": ({"a": 1}, _ANY),
    "min_p": (0.5, _ANY),
    "min_tokens": (5, _ANY),
    "mm_processor_kwargs": ({"a": 1}, _ANY),
    "priority": (1, "neutral"),
    "prompt_embeds": ("AAAA", _ANY),
    "prompt_logprobs": (1, _ANY),
    "reasoning_effort": ("low", _ANY),
    "repetition_detection": ({"max_pattern_size": 5}, _ANY),
    "repetition_penalty": (1.5, _ANY),
    "request_id": ("a", "neutral"),
    "response_format": ({"type": "json_object"}, _ANY),
    "return_token_ids": (True, _ANY),
    "return_tokens_as_token_ids": (True, _ANY),
    "skip_special_tokens": (False, _ANY),
    "spaces_between_special_tokens": (False, "neutral"),
    "stop_token_ids": ([5], _ANY),
    "structural_tag": ({"type": "a"}, _ANY),
    "structured_outputs": ({"regex": "a+"}, _ANY),
    "structured_outputs.structural_tag": ("{}", _ANY),
    "structured_outputs.whitespace_pattern": (" ", _ANY),
    "thinking_token_budget": (5, _ANY),
    "top_k": (5, _ANY),
    "truncate_prompt_tokens": (5, _ANY),
    "use_beam_search": (True, _ANY),
    "vllm_xargs": ({"a": 1}, _ANY),
}

# https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md
LLAMA_CPP: Documented = {
    "adaptive_decay": (0.5, "neutral"),
    "adaptive_target": (0.5, _ANY),
    "cache_prompt": (False, "neutral"),
    "dry_allowed_length": (3, "neutral"),
    "dry_base": (1.5, "neutral"),
    "dry_multiplier": (0.8, _ANY),
    "dry_penalty_last_n": (64, "neutral"),
    "dry_sequence_breakers": (["\n"], "neutral"),
    "dynatemp_exponent": (2, "neutral"),
    "dynatemp_range": (0.5, _ANY),
    "grammar": ('root ::= "a"', _ANY),
    "grammar_lazy": (True, _ANY),
    "id_slot": (1, "neutral"),
    "ignore_eos": (True, _ANY),
    "input_prefix": ("a", _ANY),
    "input_suffix": ("a", _ANY),
    "json_schema": (SCHEMA, _ANY),
    "logit_bias": ([[5, 1.0]], _ANY),
    "lora": ([{"id": 0, "scale": 0.5}], _ANY),
    "min_keep": (2, _ANY),
    "mirostat": (2, _ANY),
    "mirostat_eta": (0.2, "neutral"),
    "mirostat_tau": (4, "neutral"),
    "n_cache_reuse": (5, "neutral"),
    "n_cmpl": (2, _ANY),
    "n_indent": (2, _ANY),
    "n_keep": (5, _ANY),
    "n_predict": (5, _ANY),
    "n_probs": (2, _ANY),
    "parse_tool_calls": (False, _ANY),
    "penalize_nl": (True, _ANY),
    "post_sampling_probs": (True, _ANY),
    "reasoning_format": ("none", _ANY),
    "reasoning_in_content": (True, _ANY),
    "repeat_last_n": (5, _ANY),
    "repeat_penalty": (1.5, _ANY),
    "response_fields": (["content"], _ANY),
    "return_progress": (True, _ANY),
    "return_tokens": (True, _ANY),
    "samplers": (["top_k"], _ANY),
    "speculative.n_max": (5, "neutral"),
    "system_prompt": ("Be brief.", _ANY),
    "t_max_predict_ms": (5, _ANY),
    "thinking_budget_tokens": (5, _ANY),
    "thinking_forced_open": (True, _ANY),
    "timings_per_token": (True, _ANY),
    "top_n_sigma": (1.0, _ANY),
    "typical_p": (0.5, _ANY),
    "xtc_probability": (0.5, _ANY),
    "xtc_threshold": (0.2, _ANY),
}

# https://lmstudio.ai/docs/developer/openai-compat, and mlx_lm.server
LM_STUDIO: Documented = {
    "adapters": ("a", _ANY),
    "context_length": (1024, _ANY),
    "draft_model": ("a", "neutral"),
    "num_draft_tokens": (3, "neutral"),
    "system_prompt": ("Be brief.", _ANY),
    "top_a": (0.5, _ANY),
    "ttl": (60, "neutral"),
}

# https://huggingface.co/docs/text-generation-inference/reference/api_reference
TGI: Documented = {
    "adapter_id": ("a", _ANY),
    "decoder_input_details": (True, _ANY),
    "details": (True, _ANY),
    "do_sample": (False, _ANY),
    "guideline": ("a", _ANY),
    "inputs": ("Ho", _ANY),
    "max_new_tokens": (5, _ANY),
    "parameters": ({"max_new_tokens": 5}, _ANY),
    "return_full_text": (True, _ANY),
    "tool_prompt": ("a", _ANY),
    "top_n_tokens": (2, _ANY),
    "truncate": (5, _ANY),
    "watermark": (True, _ANY),
}

# The vendors' own, where another vendor's route gets them.
OTHERS: Documented = {
    "instructions": ("Be brief.", _ANY),
    "logprobs": (True, _ANY),
    "max_output_tokens": (5, _ANY),
    "n": (2, _ANY),
    "options": ({"num_predict": 5}, _ANY),
    "parallel_tool_calls": (False, _ANY),
    "regex": ("a+", _ANY),
    "sampling_params": ({"max_new_tokens": 5}, _ANY),
    "seed": (5, _ANY),
    "stop": (["x"], _ANY),
    "stop_sequences": (["x"], _ANY),
    "system": ("Be brief.", _ANY),
    "thinking": ({"type": "enabled", "budget_tokens": 1024}, _ANY),
    "tool_choice": ("required", _ANY),
    "verbosity": ("low", _ANY),
}


def _plain(table: Documented) -> Documented:
    """Return parameters of a vendor's own route as they could be sent to others."""
    return {
        name.rpartition(".")[2]: (value, fate if fate == "neutral" else _ANY)
        for name, (value, fate) in table.items()
        if not isinstance(value, tuple) and name not in ("model", "stream", "keep_alive", "rid")
    }


FOREIGN: dict[str, Documented] = {
    "vLLM": VLLM,
    "llama.cpp": LLAMA_CPP,
    "LM Studio": LM_STUDIO,
    "TGI": TGI,
    "Ollama": _plain(ollama.GENERATE),
    "SGLang": _plain(sglang.GENERATE),
    "others": OTHERS,
}
