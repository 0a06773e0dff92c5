"""Ollama's chat, generate and embed: https://github.com/ollama/ollama/blob/main/docs/api.md."""

from tests.support.documented_parameters import SCHEMA, TOOL, Beside, Documented

OPTIONS: Documented = {
    f"options.{name}": fate
    for name, fate in Documented(
        draft_num_predict=(4, "neutral"),
        f16_kv=(True, "neutral"),
        frequency_penalty=(0.5, "honoured"),
        low_vram=(True, "neutral"),
        main_gpu=(1, "neutral"),
        min_p=(0.5, "honoured"),
        mirostat=(1, "refused"),
        mirostat_eta=(0.2, "neutral"),
        mirostat_tau=(4, "neutral"),
        num_batch=(5, "neutral"),
        num_ctx=(1024, "named"),
        num_gpu=(1, "neutral"),
        num_keep=(5, "named"),
        num_predict=(5, "honoured"),
        num_thread=(5, "neutral"),
        numa=(True, "neutral"),
        penalize_newline=(False, "named"),
        presence_penalty=(0.5, "honoured"),
        repeat_last_n=(5, "named"),
        repeat_penalty=(1.5, "honoured"),
        seed=(5, "honoured"),
        stop=(["x"], "honoured"),
        temperature=(0.5, "honoured"),
        tfs_z=(0.5, "refused"),
        top_k=(5, "honoured"),
        top_p=(0.5, "honoured"),
        typical_p=(0.5, "refused"),
        use_mlock=(True, "neutral"),
        use_mmap=(True, "neutral"),
    ).items()
}

_SHARED: Documented = {
    "_debug_render_only": (True, "refused"),
    "format": (SCHEMA, "honoured"),
    "keep_alive": ("5m", "honoured"),
    "logprobs": (True, "honoured"),
    "model": ("other", "honoured"),
    "shift": (True, "named"),
    "stream": (True, "honoured"),
    "think": (True, "honoured"),
    "top_logprobs": (Beside(2, {"logprobs": True}), "honoured"),
    "truncate": (True, "named"),
    **OPTIONS,
}

CHAT: Documented = {
    "messages": ([{"role": "user", "content": "Ho"}], "honoured"),
    "tools": ([TOOL], "honoured"),
    **_SHARED,
}

GENERATE: Documented = {
    "context": ([5], "refused"),
    "images": (["aGk="], "honoured"),
    "prompt": ("Ho", "honoured"),
    "raw": (True, "honoured"),
    "suffix": ("}", "refused"),
    "system": ("Be brief.", "honoured"),
    "template": ("{{ .Prompt }}", "refused"),
    **_SHARED,
}

EMBED: Documented = {
    "dimensions": (8, "honoured"),
    "input": ("Ho", "honoured"),
    "keep_alive": ("5m", "honoured"),
    "model": ("other", "honoured"),
    "options.num_thread": (Beside(4, {"options": {}}), "neutral"),
    "truncate": (False, "honoured"),
}
