"""SGLang's ``/generate``, and what it adds to OpenAI's APIs.

https://docs.sglang.ai/basic_usage/native_api.html
https://docs.sglang.ai/basic_usage/sampling_params.html
"""

from tests.support.documented_parameters import Beside, Documented

_SCORED = {"return_logprob": True}

GENERATE: Documented = {
    "audio_data": ("a.wav", "refused"),
    "background": (True, "refused"),
    "bootstrap_host": ("a", "neutral"),
    "custom_logit_processor": ("code", "refused"),
    "data_parallel_rank": (1, "neutral"),
    "extra_key": ("k", "neutral"),
    "image_data": ("a.png", "refused"),
    "input_embeds": ([[0.5]], "refused"),
    "input_ids": (Beside([5], {"text": None}), "honoured"),
    "log_metrics": (True, "neutral"),
    "logprob_start_len": (Beside(0, _SCORED), "honoured"),
    "lora_path": ("a", "honoured"),
    "modalities": (["image"], "named"),
    "priority": (1, "neutral"),
    "return_hidden_states": (True, "refused"),
    "return_logprob": (True, "honoured"),
    "return_routed_experts": (True, "named"),
    "return_text_in_logprobs": (Beside(True, _SCORED), "honoured"),
    "rid": ("other", "honoured"),
    "session_params": ({"id": "a"}, "refused"),
    "stream": (True, "honoured"),
    "text": ("Ho", "honoured"),
    "token_ids_logprob": ([5], "refused"),
    "top_logprobs_num": (Beside(2, _SCORED), "honoured"),
    "video_data": ("a.mp4", "refused"),
    **{
        f"sampling_params.{name}": fate
        for name, fate in Documented(
            custom_params=({"a": 1}, "named"),
            ebnf=('root ::= "a"', "honoured"),
            frequency_penalty=(0.5, "honoured"),
            ignore_eos=(True, "honoured"),
            json_schema=('{"type": "object"}', "honoured"),
            logit_bias=({"5": 1}, "honoured"),
            max_new_tokens=(5, "honoured"),
            min_new_tokens=(5, "honoured"),
            min_p=(0.5, "honoured"),
            n=(2, "honoured"),
            no_stop_trim=(True, "honoured"),
            presence_penalty=(0.5, "honoured"),
            regex=("a+", "honoured"),
            repetition_penalty=(1.5, "honoured"),
            sampling_seed=(5, "honoured"),
            skip_special_tokens=(False, "refused"),
            spaces_between_special_tokens=(False, "neutral"),
            stop=("x", "honoured"),
            stop_regex=("x+", "refused"),
            stop_token_ids=([5], "honoured"),
            stream_interval=(5, "named"),
            structural_tag=("{}", "refused"),
            temperature=(0.5, "honoured"),
            top_k=(5, "honoured"),
            top_p=(0.5, "honoured"),
        ).items()
    },
}
