"""The parameters of Anthropic's Messages API, those of its beta included.

https://docs.claude.com/en/api/messages and the types of anthropic-python 2.14.
"""

from tests.support.documented_parameters import Beside, Documented

_TOOL = {"name": "f", "input_schema": {"type": "object"}}
_SCHEMA = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}
_THINKING = {"thinking": {"type": "adaptive"}}
_FORMAT = {"type": "json_schema", "schema": _SCHEMA}

DOCUMENTED: Documented = {
    "model": ("demo-model", "honoured"),
    "messages": ([{"role": "user", "content": "Ho"}], "honoured"),
    "max_tokens": (4, "honoured"),
    "billing_policy": ({"type": "billing_policy", "bill_to": "self"}, "named"),
    "cache_control": ({"type": "ephemeral"}, "neutral"),
    "compaction": ({"instructions": "Be brief."}, "refused"),
    "container": ("container_1", "named"),
    "context_management": ({"edits": [{"type": "clear_thinking_20251015"}]}, "named"),
    "diagnostics": ({"previous_message_id": "msg_1"}, "named"),
    "fallback_credit_token": ("token", "named"),
    "fallbacks": ([{"model": "other"}], "named"),
    "inference_geo": ("eu", "named"),
    "mcp_servers": ([{"type": "url", "url": "https://example.org", "name": "s"}], "refused"),
    "metadata": ({"user_id": "u"}, "neutral"),
    "output_config.effort": ("low", "honoured"),
    "output_config.format": (_FORMAT, "honoured"),
    "output_config.task_budget": ({"type": "tokens", "total": 1_000}, "named"),
    "output_format": (_FORMAT, "honoured"),
    "service_tier": ("standard_only", "neutral"),
    "speed": ("fast", "named"),
    "stop_sequences": (["x"], "honoured"),
    "stream": (True, "honoured"),
    "system": ("Be brief.", "honoured"),
    "temperature": (0.5, "honoured"),
    "thinking": ({"type": "adaptive"}, "honoured"),
    "thinking.budget_tokens": (Beside(1_024, _THINKING), "honoured"),
    "thinking.display": (Beside("omitted", _THINKING), "honoured"),
    "thinking.block_binding": (Beside({"on_failure": "drop"}, _THINKING), "named"),
    "thread": ({"type": "create"}, "refused"),
    "tool_choice": ({"type": "none"}, "honoured"),
    "tools": ([_TOOL], "honoured"),
    "top_k": (3, "honoured"),
    "top_p": (0.5, "honoured"),
    "betas": (["files-api-2025-04-14"], "neutral"),
    "user_profile_id": ("profile", "named"),
    "workspace_id": ("workspace", "named"),
}
