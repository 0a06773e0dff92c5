"""The body of a request in each dialect, without its stops. Pure; any thread."""

from api.conformance.probe.dialects.asks import Ask, Body


def _user(ask: Ask) -> list[dict[str, str]]:
    return [{"role": "user", "content": ask.prompt}]


def messages_body(ask: Ask, model: str) -> Body:
    """Return the body of a request to the Messages API."""
    body: Body = {
        "model": model,
        "max_tokens": ask.max_tokens,
        "temperature": 0,
        "messages": _user(ask),
        "stream": ask.is_streamed,
    }
    if ask.is_thinking is not None:
        enabled = {"type": "enabled", "budget_tokens": 1024}
        body["thinking"] = enabled if ask.is_thinking else {"type": "disabled"}
        if ask.is_thinking:
            # The vendor requires a limit above the budget, and allows no temperature.
            body["max_tokens"] = max(ask.max_tokens, 1024 + 512)
    return body


def chat_body(ask: Ask, model: str) -> Body:
    """Return the body of a request to Chat Completions."""
    body: Body = {
        "model": model,
        "max_tokens": ask.max_tokens,
        "temperature": 0,
        "messages": _user(ask),
        **_openai_stream(ask),
    }
    if ask.is_thinking is not None:
        body["chat_template_kwargs"] = {"enable_thinking": ask.is_thinking}
    return body


def completions_body(ask: Ask, model: str) -> Body:
    """Return the body of a request to Completions."""
    return {
        "model": model,
        "max_tokens": ask.max_tokens,
        "temperature": 0,
        "prompt": ask.prompt,
        **_openai_stream(ask),
    }


def _openai_stream(ask: Ask) -> Body:
    if not ask.is_streamed:
        return {"stream": False}
    return {"stream": True, "stream_options": {"include_usage": True}}


def responses_body(ask: Ask, model: str) -> Body:
    """Return the body of a request to the Responses API."""
    body: Body = {
        "model": model,
        "max_output_tokens": ask.max_tokens,
        "temperature": 0,
        "input": ask.prompt,
        "stream": ask.is_streamed,
    }
    if ask.is_thinking is not None:
        body["reasoning"] = {"effort": "medium" if ask.is_thinking else "none"}
    return body


def generate_body(ask: Ask, model: str) -> Body:
    """Return the body of a request to SGLang's ``/generate``."""
    return {
        "text": ask.prompt,
        "sampling_params": {"temperature": 0, "max_new_tokens": ask.max_tokens},
        "stream": ask.is_streamed,
    }


def ollama_body(ask: Ask, model: str) -> Body:
    """Return the body of a request to Ollama's ``/api/chat``."""
    body: Body = {
        "model": model,
        "messages": _user(ask),
        "stream": ask.is_streamed,
        "options": {"temperature": 0, "num_predict": ask.max_tokens},
    }
    if ask.is_thinking is not None:
        body["think"] = ask.is_thinking
    return body
