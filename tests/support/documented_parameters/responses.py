"""The parameters of OpenAI's Responses API.

https://platform.openai.com/docs/api-reference/responses and the types of openai-python 3.57.
"""

from tests.support.documented_parameters import Documented

_TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}}
_SCHEMA = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}
_FORMAT = {"type": "json_schema", "name": "answer", "schema": _SCHEMA}

DOCUMENTED: Documented = {
    "input": ("Ho", "honoured"),
    "model": ("demo-model", "honoured"),
    "access_programs": ({"cyber": "standard"}, "named"),
    "background": (True, "refused"),
    "background_options": ({"completion_window": "2h"}, "named"),
    "context_management": ([{"type": "compaction", "compact_threshold": 1_000}], "named"),
    "conversation": ("conv_1", "refused"),
    "image": ({"context_compression": "enabled"}, "named"),
    "include": (["message.output_text.logprobs"], "honoured"),
    "instructions": ("Be brief.", "honoured"),
    "max_output_tokens": (4, "honoured"),
    "max_tool_calls": (1, "named"),
    "metadata": ({"key": "value"}, "neutral"),
    "moderation": ({"model": "omni-moderation-latest"}, "named"),
    "parallel_tool_calls": (False, "honoured"),
    "previous_response_id": ("resp_1", "refused"),  # it is not kept
    "prompt": ({"id": "pmpt_1"}, "refused"),
    "prompt_cache_key": ("key", "neutral"),
    "prompt_cache_options": ({"mode": "implicit", "ttl": "12h"}, "neutral"),
    "prompt_cache_options.prewarm": (True, "refused"),
    "prompt_cache_retention": ("24h", "neutral"),
    "reasoning.context": ("all_turns", "named"),
    "reasoning.effort": ("low", "honoured"),
    "reasoning.generate_summary": ("auto", "honoured"),
    "reasoning.mode": ("pro", "named"),
    "reasoning.summary": ("auto", "honoured"),
    "safety_identifier": ("user", "neutral"),
    "service_tier": ("flex", "neutral"),
    "store": (False, "honoured"),
    "stream": (True, "honoured"),
    "stream_options": ({"include_obfuscation": False}, "neutral"),
    "temperature": (0.5, "honoured"),
    "text.format": (_FORMAT, "honoured"),
    "text.verbosity": ("low", "named"),
    "tool_choice": ("none", "honoured"),
    "tools": ([_TOOL], "honoured"),
    "top_logprobs": (2, "honoured"),
    "top_p": (0.5, "honoured"),
    "truncation": ("auto", "named"),
    "user": ("user", "neutral"),
}
