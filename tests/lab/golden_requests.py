"""The requests of ``tests.lab.golden``: every route and dialect, each with a name.

They run in this order against one server, so that later ones may continue earlier ones: in a path
or a body, ``{{name}}`` stands for the id of the answer of that name. The temperature is 0 wherever
the vendor has one, and texts are short, because the demo model writes some 60 tokens a second.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
RESPONSES = "/v1/responses"
MESSAGES = "/v1/messages"
GENERATE = "/generate"
OLLAMA_CHAT = "/api/chat"
OLLAMA_GENERATE = "/api/generate"

_COUNT = "Count from 1 to 10."
_LONG = "Count from 1 to 30."
_SUM = "What is 3 + 4?"
_WEATHER = "What is the weather in Paris?"
_HELLO = "Hello"
_CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_FORECAST = {"name": "get_weather", "description": "Weather of a city", "parameters": _CITY}
_TOOL = {"type": "function", "function": _FORECAST}
_NUMBERS = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "ok": {"type": "boolean"}},
    "required": ["n", "ok"],
    "additionalProperties": False,
}
_PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)
# Stops for the numbers that are counted, by what they show.
_STOPS: dict[str, Any] = {
    "one": ["5"],
    "several": ["8", "6", ", 7"],
    "spanning": ["3, 4, 5"],
    "at_once": ["1"],
    "absent": ["never written"],
    "overlapping": ["4, 5, 6, 8", "5, 6", "6"],
}


@dataclass(frozen=True)
class Request:
    """One request to record."""

    name: str
    method: str
    path: str
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


def _turn(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def _both(name: str, path: str, body: dict[str, Any]) -> Iterator[Request]:
    """Ask for a whole answer and for a stream."""
    yield Request(name, "POST", path, {**body, "stream": False})
    yield Request(f"{name}.stream", "POST", path, {**body, "stream": True})


def requests() -> list[Request]:
    """Return the requests to a server with the options that it has by default."""
    return [
        *_documents(),
        *_chat(),
        *_completions(),
        *_messages(),
        *_responses(),
        *_generate(),
        *_ollama(),
        *_embeddings(),
        *_errors(),
        Request("metrics", "GET", "/metrics"),
    ]


def guarded_requests() -> list[Request]:
    """Return the requests to a server that has a key, is strict, and takes small bodies only."""
    key = {"authorization": "Bearer secret"}
    plain = {"model": "demo-model", "max_tokens": 8, "temperature": 0}
    five = [str(number) for number in range(5)]
    found = []
    for path, body in _plain_bodies():
        name = path.strip("/").replace("/", ".")
        found += [
            Request(f"guarded.no_key.{name}", "POST", path, body),
            Request(
                f"guarded.wrong_key.{name}", "POST", path, body, {"authorization": "Bearer no"}
            ),
            Request(f"guarded.key.{name}", "POST", path, body, key),
            Request(f"guarded.too_large.{name}", "POST", path, " " * 30_000, key),
        ]
    return [
        *found,
        Request("guarded.x_api_key", "GET", "/v1/models", None, {"x-api-key": "secret"}),
        Request("guarded.health", "GET", "/health"),
        Request("guarded.openapi", "GET", "/openapi.json"),
        Request("guarded.metrics", "GET", "/metrics"),
        Request(
            "guarded.chat.five_stops", "POST", CHAT,
            {**plain, "messages": _turn(_COUNT), "stop": five}, key,
        ),
        Request(
            "guarded.completions.five_stops", "POST", COMPLETIONS,
            {**plain, "prompt": "1, 2", "stop": five}, key,
        ),
        Request(
            "guarded.chat.image", "POST", CHAT,
            {**plain, "messages": [{"role": "user", "content": _chat_image()}]}, key,
        ),
        Request(
            "guarded.chat.blank_stop", "POST", CHAT,
            {**plain, "messages": _turn(_COUNT), "stop": [" \n"]}, key,
        ),
        Request(
            "guarded.messages.blank_stop", "POST", MESSAGES,
            {**plain, "messages": _turn(_COUNT), "stop_sequences": [" \n"]}, key,
        ),
    ]  # fmt: skip


def _plain_bodies() -> list[tuple[str, dict[str, Any]]]:
    few = {"model": "demo-model", "max_tokens": 8, "temperature": 0}
    return [
        (CHAT, {**few, "messages": _turn(_HELLO)}),
        (COMPLETIONS, {**few, "prompt": "1, 2, 3"}),
        (MESSAGES, {**few, "messages": _turn(_HELLO)}),
        (
            RESPONSES,
            {
                "model": "demo-model",
                "input": _HELLO,
                "max_output_tokens": 16,
                "temperature": 0,
                "store": False,
            },
        ),
        (GENERATE, {"text": "1, 2", "sampling_params": {"max_new_tokens": 8, "temperature": 0}}),
        (
            OLLAMA_CHAT,
            {
                "model": "demo-model",
                "messages": _turn(_HELLO),
                "stream": False,
                "options": {"num_predict": 8, "temperature": 0},
            },
        ),
    ]


def _documents() -> Iterator[Request]:
    for path in (
        "/", "/openapi.json", "/health", "/v1/models", "/v1/models/demo-model", "/v1/models/other",
        "/get_model_info", "/server_info", "/get_server_info", "/health_generate",
        "/api/tags", "/api/ps", "/api/version",
    ):  # fmt: skip
        yield Request(f"get{path.replace('/', '.')}", "GET", path)
    yield Request("head", "HEAD", "/")
    yield Request("head.api.tags", "HEAD", "/api/tags")
    vendor = {"anthropic-version": "2023-06-01"}
    yield Request("get.v1.models.anthropic", "GET", "/v1/models", None, vendor)
    yield Request("get.v1.models.other.anthropic", "GET", "/v1/models/other", None, vendor)
    yield Request("api.show", "POST", "/api/show", {"model": "demo-model"})
    yield Request("api.show.other", "POST", "/api/show", {"model": "other"})
    yield Request("tokenize", "POST", "/tokenize", {"prompt": "Hello, 12 worlds"})
    yield Request("tokenize.chat", "POST", "/tokenize", {"messages": _turn(_HELLO)})
    yield Request("detokenize", "POST", "/detokenize", {"tokens": [40, 41, 42]})
    yield Request("flush_cache", "POST", "/flush_cache")


# -- Chat Completions -----------------------------------------------------------------------------


def _chat_image() -> list[dict[str, Any]]:
    return [
        {"type": "text", "text": _HELLO},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_PIXEL}"}},
    ]


def _chat() -> Iterator[Request]:
    def both(name: str, text: str = _COUNT, **more: Any) -> Iterator[Request]:
        body = {"model": "demo-model", "temperature": 0, "max_tokens": 40, "messages": _turn(text)}
        yield from _both(f"chat.{name}", CHAT, body | more)

    usage = {"stream_options": {"include_usage": True}}
    report = {"fullstop": {"report": True}}
    thinks = {"enable_thinking": True}
    yield from both("plain", _HELLO)
    yield from both("usage", _HELLO, **usage)
    yield from both("report", _HELLO, **report)
    yield from both("limit", max_tokens=5)
    yield from both("limit.completion", max_tokens=None, max_completion_tokens=5)
    for name, stops in _STOPS.items():
        yield from both(f"stop.{name}", stop=stops, **report)
    yield from both("stop.text", stop="5")
    yield from both("stop.included", stop=["5"], include_stop_str_in_output=True)
    yield from both("stop.token", stop_token_ids=[20, 21, 22, 23, 24], **report)
    yield from both("stop.min_tokens", stop=["2"], min_tokens=12, **report)
    yield from both("ignore_eos", _HELLO, ignore_eos=True, max_tokens=60)
    yield from both("stop.scopes", stop=["7"], fullstop={"stop_scopes": {"7": "all"}})
    yield from both("stop.unscoped", stop=["7"], fullstop={"stop_scopes": {"8": "all"}})
    yield from both("thinking", _SUM, max_tokens=200, **thinks, **report)
    yield from both("thinking.off", _SUM, enable_thinking=False)
    yield from both("thinking.effort", _SUM, max_tokens=200, reasoning_effort="low")
    yield from both("thinking.budget", _SUM, max_tokens=200, thinking_budget=4, **thinks, **report)
    yield from both("thinking.stop", _SUM, max_tokens=200, stop=["3"], **thinks, **report)
    scopes = {"stop_scopes": {"3": "text+thinking"}, "report": True}
    yield from both("thinking.stop.scope", _SUM, max_tokens=200, stop=["3"], fullstop=scopes,
                    **thinks)  # fmt: skip
    yield from both("thinking.limit", _SUM, max_tokens=3, **thinks, **report)
    yield from both("thinking.excluded", _SUM, max_tokens=200, reasoning={"enabled": True,
                    "exclude": True})  # fmt: skip
    yield from both("tools", _WEATHER, tools=[_TOOL], max_tokens=80, **report)
    yield from both("tools.required", _HELLO, tools=[_TOOL], tool_choice="required", max_tokens=80)
    named = {"type": "function", "function": {"name": "get_weather"}}
    yield from both("tools.named", _HELLO, tools=[_TOOL], tool_choice=named, max_tokens=80)
    yield from both("tools.none", _WEATHER, tools=[_TOOL], tool_choice="none")
    yield from both("tools.limit", _WEATHER, tools=[_TOOL], max_tokens=20, **report)
    yield from both("tools.stop", _WEATHER, tools=[_TOOL], stop=["Paris"], max_tokens=80, **report)
    every = {"stop_scopes": {"Paris": "all"}, "report": True}
    yield from both("tools.stop.all", _WEATHER, tools=[_TOOL], stop=["Paris"], max_tokens=80,
                    fullstop=every)  # fmt: skip
    yield from both("tools.web_search", _HELLO, tools=[{"type": "web_search"}, _TOOL])
    yield from both("tools.strict", _WEATHER, max_tokens=80, tools=[
        {"type": "function", "function": {**_FORECAST, "strict": True}}])  # fmt: skip
    custom = {"type": "custom", "custom": {"name": "patch", "description": "Apply a patch"}}
    yield from both("tools.custom", _HELLO, tools=[custom], tool_choice="required", max_tokens=60)
    yield from both("functions", _WEATHER, functions=[_FORECAST], max_tokens=80)
    yield from both("functions.named", _HELLO, functions=[_FORECAST], max_tokens=80,
                    function_call={"name": "get_weather"})  # fmt: skip
    called = {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
            }
        ],
    }
    result = {"role": "tool", "tool_call_id": "c1", "content": "sunny, 20 degrees"}
    yield from both("tools.result", tools=[_TOOL], messages=[*_turn(_WEATHER), called, result])
    schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": _NUMBERS}}
    yield from both("json_schema", response_format=schema, max_tokens=60)
    yield from both("json_object", response_format={"type": "json_object"}, max_tokens=30)
    yield from both("json_schema.stop", response_format=schema, stop=["ok"], max_tokens=60)
    yield from both("guided_choice", guided_choice=["yes", "no"])
    yield from both("guided_regex", guided_regex="[0-9]{3}-[a-c]{2}")
    yield from both("guided_grammar", guided_grammar='start: "a" | "b" "c"')
    yield from both("structured", structured_outputs={"choice": ["left", "right"]})
    yield from both("n", n=2, max_tokens=12)
    yield from both("n.stop", n=2, max_tokens=12, stop=["3"], **usage)
    yield from both("logprobs", max_tokens=8, logprobs=True, top_logprobs=2)
    yield from both("logprobs.none", max_tokens=8, logprobs=True)
    yield from both("logprobs.n", max_tokens=4, n=2, logprobs=True, top_logprobs=1)
    yield Request("chat.prompt_logprobs", "POST", CHAT, {
        "messages": _turn(_HELLO), "max_tokens": 2, "temperature": 0,
        "prompt_logprobs": 1})  # fmt: skip
    yield from both("seed", temperature=0.9, seed=7, max_tokens=12)
    yield from both("sampling", temperature=0.5, top_p=0.9, top_k=5, min_p=0.1, seed=3,
                    repetition_penalty=1.1, presence_penalty=0.2, frequency_penalty=0.3,
                    logit_bias={"20": -5}, max_tokens=12)  # fmt: skip
    yield from both("prediction", prediction={"type": "content", "content": "1, 2, 3, 4, 5, 6"})
    yield from both("system", messages=[{"role": "system", "content": "Be brief."},
                                        {"role": "developer", "content": "In English."},
                                        *_turn(_HELLO)])  # fmt: skip
    last = [*_turn(_COUNT), {"role": "assistant", "content": "1, 2, 3,"}]
    yield from both("last_turn", messages=last)
    yield from both("last_turn.continued", messages=last, continue_final_message=True,
                    add_generation_prompt=False)  # fmt: skip
    yield from both("image.earlier", messages=[
        {"role": "user", "content": _chat_image()}, {"role": "assistant", "content": "Hi"},
        *_turn(_HELLO)])  # fmt: skip
    yield from both("image.last", messages=[{"role": "user", "content": _chat_image()}])
    yield from both("image.note", messages=[{"role": "user", "content": _chat_image()}],
                    fullstop={"images": "note"})  # fmt: skip
    yield from both("floats", max_tokens=5.0, n=1.0, seed=4.0, top_k=3.0)
    yield from both("no_model", _HELLO, model=None)
    yield from both("other_model", _HELLO, model="other")


# -- Completions ----------------------------------------------------------------------------------


def _completions() -> Iterator[Request]:
    def both(name: str, **more: Any) -> Iterator[Request]:
        body = {"model": "demo-model", "prompt": "1, 2, 3", "temperature": 0, "max_tokens": 12}
        yield from _both(f"completions.{name}", COMPLETIONS, body | more)

    report = {"fullstop": {"report": True}}
    yield from both("plain")
    yield from both("report", **report)
    yield from both("usage", stream_options={"include_usage": True})
    yield from both("stop", stop=["6"], **report)
    yield from both("stop.token", stop_token_ids=[20, 21, 22], **report)
    yield from both("echo", echo=True)
    yield from both("echo.logprobs", echo=True, logprobs=1, max_tokens=4)
    yield from both("echo.only", echo=True, max_tokens=0, logprobs=0)
    yield from both("logprobs", logprobs=2, max_tokens=5)
    yield from both("n", n=2, max_tokens=4)
    yield from both("prompts", prompt=["1, 2", "A, B"], max_tokens=6)
    yield from both("ids", prompt=[40, 41, 42], max_tokens=4)
    yield from both("prompt_logprobs", prompt_logprobs=1, max_tokens=2)
    yield from both("best_of", best_of=2)
    yield from both("suffix", suffix="9")
    yield from both("regex", regex="[ab]{4}")


# -- Messages -------------------------------------------------------------------------------------


def _messages() -> Iterator[Request]:
    def both(name: str, text: str = _COUNT, **more: Any) -> Iterator[Request]:
        body = {"model": "demo-model", "temperature": 0, "max_tokens": 40, "messages": _turn(text)}
        yield from _both(f"messages.{name}", MESSAGES, body | more)

    report = {"fullstop": {"report": True}}
    thinks = {"thinking": {"type": "enabled", "budget_tokens": 100}}
    tool = {"name": "get_weather", "description": "Weather", "input_schema": _CITY}
    yield from both("plain", _HELLO)
    yield from both("report", _HELLO, **report)
    yield from both("limit", max_tokens=5)
    yield from both("nothing", max_tokens=0)
    for name, stops in _STOPS.items():
        yield from both(f"stop.{name}", stop_sequences=stops, **report)
    yield from both("stop.token", stop_token_ids=[20, 21, 22], **report)
    yield from both("thinking", _SUM, max_tokens=200, **thinks, **report)
    yield from both("thinking.small", _SUM, max_tokens=200, **report,
                    thinking={"type": "enabled", "budget_tokens": 4})  # fmt: skip
    yield from both("thinking.omitted", _SUM, max_tokens=200,
                    thinking={"type": "adaptive", "display": "omitted"})  # fmt: skip
    yield from both("thinking.stop", _SUM, max_tokens=200, stop_sequences=["3"], **thinks)
    yield from both("thinking.limit", _SUM, max_tokens=3, **thinks)
    yield from both("thinking.off", _SUM, thinking={"type": "disabled"})
    yield from both("effort", _SUM, max_tokens=200, output_config={"effort": "low"})
    yield from both("tools", _WEATHER, tools=[tool], max_tokens=80, **report)
    yield from both("tools.any", _HELLO, tools=[tool], tool_choice={"type": "any"}, max_tokens=80)
    yield from both("tools.named", _HELLO, tools=[tool], max_tokens=80,
                    tool_choice={"type": "tool", "name": "get_weather"})  # fmt: skip
    yield from both("tools.none", _WEATHER, tools=[tool], tool_choice={"type": "none"})
    yield from both("tools.limit", _WEATHER, tools=[tool], max_tokens=20)
    yield from both("tools.web_search", _HELLO, tools=[
        {"type": "web_search_20250305", "name": "web_search"}, tool])  # fmt: skip
    yield from both("tools.bash", _HELLO, tools=[{"type": "bash_20250124", "name": "bash"}])
    use = {"type": "tool_use", "id": "t1", "name": "get_weather", "input": {"city": "Paris"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "sunny, 20 degrees"}
    yield from both("tools.result", tools=[tool], messages=[
        *_turn(_WEATHER), {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result]}])  # fmt: skip
    yield from both("tools.result.unknown", tools=[tool], messages=[
        *_turn(_WEATHER), {"role": "user", "content": [result]}])  # fmt: skip
    yield from both("json_schema", max_tokens=60,
                    output_config={"format": {"type": "json_schema", "schema": _NUMBERS}},
                    )  # fmt: skip
    yield from both("system", _HELLO, system="Be brief.")
    yield from both("system.blocks", _HELLO, system=[{"type": "text", "text": "Be brief."}])
    yield from both("prefill", messages=[
        *_turn(_COUNT), {"role": "assistant", "content": "1, 2, 3,"}])  # fmt: skip
    source = {"type": "base64", "media_type": "image/png", "data": _PIXEL}
    yield from both("image", messages=[{"role": "user", "content": [
        {"type": "image", "source": source}]}])  # fmt: skip
    yield from both("document", messages=[{"role": "user", "content": [
        {"type": "document", "source": {"type": "text", "media_type": "text/plain",
                                        "data": "A"}, "title": "T"},
        {"type": "text", "text": _HELLO}]}])  # fmt: skip
    yield from both("sampling", top_p=0.5, top_k=3, max_tokens=8)
    yield from both("mcp", _HELLO, mcp_servers=[{"name": "x"}])
    for name, more in (
        ("plain", {}),
        ("tools", {"tools": [tool]}),
        ("system", {"system": "Be brief."}),
        ("wrong", {"messages": []}),
    ):
        body = {"model": "demo-model", "messages": _turn(_HELLO), **more}
        yield Request(f"count_tokens.{name}", "POST", f"{MESSAGES}/count_tokens", body)


# -- Responses ------------------------------------------------------------------------------------


def _responses() -> Iterator[Request]:
    def both(name: str, text: Any = _COUNT, **more: Any) -> Iterator[Request]:
        body = {"model": "demo-model", "temperature": 0, "max_output_tokens": 40, "input": text}
        yield from _both(f"responses.{name}", RESPONSES, body | more)

    report = {"fullstop": {"report": True}}
    tool = {"type": "function", **_FORECAST}
    thinks = {"reasoning": {"effort": "high", "summary": "auto"}}
    yield from both("plain", _HELLO)
    yield from both("unkept", _HELLO, store=False, metadata={"a": "b"}, user="u",
                    prompt_cache_key="k", safety_identifier="s")  # fmt: skip
    yield from both("report", _HELLO, **report)
    yield from both("limit", max_output_tokens=5)
    yield from both("instructions", _HELLO, instructions="Be brief.")
    yield from both("stop", stop=["5"], **report)
    yield from both("stop.spanning", stop=["3, 4, 5"])
    yield from both("thinking", _SUM, max_output_tokens=200, **thinks, **report)
    yield from both("thinking.unsaid", _SUM, max_output_tokens=200, reasoning={"effort": "low"})
    yield from both("thinking.encrypted", _SUM, max_output_tokens=200, store=False,
                    include=["reasoning.encrypted_content"], **thinks)  # fmt: skip
    yield from both("thinking.limit", _SUM, max_output_tokens=3, **thinks)
    yield from both("tools", _WEATHER, tools=[tool], max_output_tokens=80)
    yield from both("tools.required", tools=[tool], tool_choice="required", max_output_tokens=80)
    yield from both("tools.named", tools=[tool], max_output_tokens=80,
                    tool_choice={"type": "function", "name": "get_weather"})  # fmt: skip
    yield from both("tools.limit", _WEATHER, tools=[tool], max_output_tokens=20)
    space = {"type": "namespace", "name": "mcp__w", "description": "Weather", "tools": [tool]}
    yield from both("tools.namespace", _WEATHER, tools=[space], max_output_tokens=90,
                    tool_choice="required")  # fmt: skip
    custom = {"type": "custom", "name": "patch", "description": "Apply a patch"}
    yield from both("tools.custom", _HELLO, tools=[custom], tool_choice="required",
                    max_output_tokens=60)  # fmt: skip
    yield from both("tools.web_search", _HELLO, tools=[{"type": "web_search"}])
    call = {
        "type": "function_call",
        "call_id": "c1",
        "name": "get_weather",
        "arguments": '{"city": "Paris"}',
    }
    output = {"type": "function_call_output", "call_id": "c1", "output": "sunny, 20 degrees"}
    asked = {"role": "user", "content": _WEATHER}
    yield from both("tools.result", [asked, call, output], tools=[tool])
    yield from both("tools.result.unknown", [asked, output], tools=[tool])
    schema = {"type": "json_schema", "name": "n", "schema": _NUMBERS, "strict": True}
    yield from both("json_schema", text={"format": schema}, max_output_tokens=60)
    yield from both("json_object", text={"format": {"type": "json_object"}})
    yield from both("logprobs", max_output_tokens=16, top_logprobs=2,
                    include=["message.output_text.logprobs"])  # fmt: skip
    yield from both("last_turn", [{"role": "user", "content": _COUNT},
                                  {"role": "assistant", "content": "1, 2, 3,"}])  # fmt: skip
    yield from both("image", [{"role": "user", "content": [
        {"type": "input_image", "image_url": f"data:image/png;base64,{_PIXEL}"}]}])  # fmt: skip
    yield from both("foreign", [
        {"role": "user", "content": _HELLO},
        {"type": "web_search_call", "id": "w", "status": "completed"},
        {"type": "local_shell_call", "call_id": "l", "action": {"type": "exec", "command": ["ls"]}},
        {"type": "local_shell_call_output", "call_id": "l", "output": "a b"},
        {"role": "user", "content": _HELLO}])  # fmt: skip
    yield from both("background", background=True)
    yield from both("conversation", conversation="c")
    # What is kept.
    yield from both("continued", "And again?", previous_response_id="{{responses.plain}}")
    yield from both("continued.twice", "Go on", previous_response_id="{{responses.continued}}")
    yield from both("continued.thinking", "Why?", previous_response_id="{{responses.thinking}}")
    yield from both("continued.tools", [{**output, "call_id": "{{responses.tools:call}}"}],
                    previous_response_id="{{responses.tools}}", tools=[tool])  # fmt: skip
    yield from both("continued.unknown", previous_response_id="resp_unknown")
    yield from both("continued.unkept", previous_response_id="{{responses.unkept}}")
    yield from both("reference", [{"type": "item_reference", "id": "msg_unknown"}])
    for name in ("plain", "continued", "thinking", "tools", "unkept"):
        path = f"{RESPONSES}/{{{{responses.{name}}}}}"
        yield Request(f"responses.get.{name}", "GET", path)
        yield Request(f"responses.get.{name}.stream", "GET", f"{path}?stream=true")
        yield Request(f"responses.get.{name}.items", "GET", f"{path}/input_items")
    path = f"{RESPONSES}/{{{{responses.continued}}}}"
    yield Request("responses.items.limit", "GET", f"{path}/input_items?limit=1&order=asc")
    yield Request("responses.items.wrong", "GET", f"{path}/input_items?limit=x")
    yield Request("responses.stream.after", "GET", f"{path}?stream=true&starting_after=3")
    yield Request("responses.delete", "DELETE", path)
    yield Request("responses.delete.again", "DELETE", path)
    count = f"{RESPONSES}/input_tokens"
    yield Request("responses.input_tokens", "POST", count, {"input": _HELLO})
    yield Request("responses.input_tokens.tools", "POST", count, {"input": _HELLO, "tools": [tool]})
    yield Request("responses.input_tokens.continued", "POST", count, {
        "input": _HELLO, "previous_response_id": "{{responses.plain}}"})  # fmt: skip
    compact = f"{RESPONSES}/compact"
    yield Request("responses.compact", "POST", compact, {
        "model": "demo-model", "input": [asked, {"role": "assistant", "content": "Sunny."}],
        "temperature": 0})  # fmt: skip
    yield Request("responses.compact.kept", "POST", compact, {
        "model": "demo-model", "previous_response_id": "{{responses.plain}}",
        "temperature": 0})  # fmt: skip
    yield Request("responses.compact.nothing", "POST", compact, {"model": "demo-model"})


# -- SGLang's /generate ---------------------------------------------------------------------------


def _generate() -> Iterator[Request]:
    def both(name: str, sampling: dict[str, Any] | None = None, **more: Any) -> Iterator[Request]:
        params = {"temperature": 0, "max_new_tokens": 12, **(sampling or {})}
        body = {"text": "1, 2, 3", "sampling_params": params, **more}
        yield from _both(f"generate.{name}", GENERATE, body)

    report = {"fullstop": {"report": True}}
    yield from both("plain", rid="mine")
    yield from both("report", **report)
    yield from both("stop", {"stop": ["6"]}, **report)
    yield from both("stop.kept", {"stop": ["6"], "no_stop_trim": True})
    yield from both("stop.token", {"stop_token_ids": [20, 21, 22]}, **report)
    yield from both("min_tokens", {"stop": ["4"], "min_new_tokens": 6}, **report)
    yield from both("logprobs", {"max_new_tokens": 4}, return_logprob=True, top_logprobs_num=2,
                    return_text_in_logprobs=True)  # fmt: skip
    yield from both("prompt_logprobs", {"max_new_tokens": 2}, return_logprob=True,
                    logprob_start_len=0, token_ids_logprob=[20, 21])  # fmt: skip
    yield from both("n", {"n": 2, "max_new_tokens": 4})
    yield from both("prompts", text=["1, 2", "A, B"])
    yield from both("ids", text=None, input_ids=[40, 41, 42])
    yield from both("json_schema", {"json_schema": '{"type": "integer"}'})
    yield from both("regex", {"regex": "[ab]{4}"})
    yield from both("ebnf", {"ebnf": 'root ::= "a" "b"'})
    yield from both("stop_regex", {"stop_regex": "[0-9]"})
    yield from both("image", image_data="x")
    yield from both("none", text=None)
    yield from both("empty", {"max_new_tokens": 0})


# -- Ollama ---------------------------------------------------------------------------------------


def _ollama() -> Iterator[Request]:
    def chat(
        name: str, text: str = _COUNT, options: dict[str, Any] | None = None, **more: Any
    ) -> Iterator[Request]:
        given = {"temperature": 0, "num_predict": 40, **(options or {})}
        body = {"model": "demo-model", "messages": _turn(text), "options": given, **more}
        yield from _both(f"ollama.chat.{name}", OLLAMA_CHAT, body)

    def generate(
        name: str, options: dict[str, Any] | None = None, **more: Any
    ) -> Iterator[Request]:
        given = {"temperature": 0, "num_predict": 40, **(options or {})}
        body = {"model": "demo-model", "prompt": _COUNT, "options": given, **more}
        yield from _both(f"ollama.generate.{name}", OLLAMA_GENERATE, body)

    report = {"fullstop": {"report": True}}
    yield from chat("plain", _HELLO)
    yield from chat("latest", _HELLO, model="demo-model:latest")
    yield from chat("report", _HELLO, **report)
    yield from chat("limit", options={"num_predict": 5})
    yield from chat("stop", options={"stop": ["5"]}, **report)
    yield from chat("stop.spanning", options={"stop": "3, 4, 5"})
    yield from chat("thinking", _SUM, {"num_predict": 200}, think=True, **report)
    yield from chat("thinking.word", _SUM, {"num_predict": 200}, think="low")
    yield from chat("thinking.off", _SUM, think=False)
    yield from chat("tools", _WEATHER, {"num_predict": 80}, tools=[_TOOL])
    yield from chat("tools.limit", _WEATHER, {"num_predict": 20}, tools=[_TOOL])
    call = {"function": {"name": "get_weather", "arguments": {"city": "Paris"}}}
    yield from chat("tools.result", tools=[_TOOL], messages=[
        *_turn(_WEATHER), {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_name": "get_weather", "content": "sunny"}])  # fmt: skip
    yield from chat("json", format="json")
    yield from chat("json_schema", options={"num_predict": 60}, format=_NUMBERS)
    yield from chat("logprobs", options={"num_predict": 5}, logprobs=True, top_logprobs=2)
    yield from chat("images", messages=[{"role": "user", "content": "Hi", "images": [_PIXEL]}])
    yield from chat("prefill", messages=[
        *_turn(_COUNT), {"role": "assistant", "content": "1, 2, 3,"}])  # fmt: skip
    yield from chat("mirostat", options={"mirostat": 2})
    yield from chat("load", messages=[])
    yield from chat("other", model="other")
    yield from generate("plain")
    yield from generate("stop", {"stop": ["5"]}, **report)
    yield from generate("raw", prompt="1, 2, 3", raw=True)
    yield from generate("system", system="Be brief.")
    yield from generate("template", template="{{ .Prompt }}")
    yield from generate("context", context=[1, 2])
    yield from generate("suffix", suffix="x")
    yield from generate("load", prompt="")
    yield from generate("thinking", {"num_predict": 200}, prompt=_SUM, think=True)
    yield Request(
        "ollama.chat.default_stream",
        "POST",
        OLLAMA_CHAT,
        {
            "model": "demo-model",
            "messages": _turn(_HELLO),
            "options": {"temperature": 0, "num_predict": 8},
        },
    )


# -- embeddings -----------------------------------------------------------------------------------


def _embeddings() -> Iterator[Request]:
    def openai(name: str, **more: Any) -> Request:
        body = {"model": "demo-model", "input": "One two", "dimensions": 8, **more}
        return Request(f"embeddings.{name}", "POST", "/v1/embeddings", body)

    yield openai("one")
    yield openai("several", input=["One", "Two three"])
    yield openai("ids", input=[40, 41, 42])
    yield openai("ids.several", input=[[40, 41], [42]])
    yield openai("base64", encoding_format="base64")
    yield openai("whole", dimensions=None)
    yield openai("empty", input="")
    yield openai("none", input=[])
    yield openai("mixed", input=["a", [1]])
    yield openai("too_many_dimensions", dimensions=1_000_000)
    yield openai("refused", truncate_prompt_tokens=4)
    yield openai("other_model", model="other")
    yield openai("too_long", input="word " * 40_000)

    def ollama(name: str, **more: Any) -> Request:
        body = {"model": "demo-model", "input": "One two", "dimensions": 8, **more}
        return Request(f"ollama.embed.{name}", "POST", "/api/embed", body)

    yield ollama("one")
    yield ollama("several", input=["One", "Two three"])
    yield ollama("nothing", input=[])
    yield ollama("blank", input="")
    yield ollama("untruncated", input="word " * 40_000, truncate=False)
    yield ollama("other_model", model="other")
    path = "/api/embeddings"
    yield Request("ollama.embeddings", "POST", path, {"model": "demo-model", "prompt": "One two"})
    yield Request("ollama.embeddings.blank", "POST", path, {"model": "demo-model", "prompt": ""})


# -- errors ---------------------------------------------------------------------------------------


def _errors() -> Iterator[Request]:
    origin = {"origin": "https://example.org"}
    for path, body in _plain_bodies():
        name = f"error.{path.strip('/').replace('/', '.')}"
        yield Request(f"{name}.get", "GET", path)
        yield Request(f"{name}.no_json", "POST", path, "{")
        yield Request(f"{name}.no_object", "POST", path, "[]")
        yield Request(f"{name}.empty", "POST", path, "")
        yield Request(f"{name}.no_fields", "POST", path, {})
        yield Request(f"{name}.not_utf8", "POST", path, '{"a": "\udcff"}')
        yield Request(f"{name}.deep", "POST", path, "[" * 3000)
        yield Request(f"{name}.origin", "POST", path, body, origin)
        yield Request(f"{name}.host", "POST", path, body, {"host": "example.org"})
        yield Request(f"{name}.unpacked", "POST", path, body, {"content-encoding": "br"})
        yield Request(f"{name}.stream_type", "POST", path, {**body, "stream": "yes"})
        yield Request(f"{name}.model_type", "POST", path, {**body, "model": 5})
        if "sampling_params" in body:
            wrong = [{"sampling_params": {"temperature": value}} for value in (9, "hot")]
            wrong += [{"sampling_params": {"stop": value}} for value in ("", [""], [5], 5)]
        elif "options" in body:
            wrong = [{"options": {"temperature": value}} for value in ("hot", True)]
            wrong += [{"options": {"stop": value}} for value in ("", [""], [5], 5)]
        else:
            stop = "stop_sequences" if path == MESSAGES else "stop"
            wrong = [{"temperature": value} for value in (9, "hot")]
            wrong += [{stop: value} for value in ("", [""], [5], 5)]
        for number, change in enumerate(wrong):
            yield Request(f"{name}.wrong_{number}", "POST", path, {**body, **change})
        yield Request(f"{name}.unhonoured", "POST", path, {**body, "typical_p": 0.5,
                      "use_beam_search": True})  # fmt: skip
    long = {"model": "demo-model", "messages": _turn("word " * 40_000), "max_tokens": 8}
    yield Request("error.chat.context", "POST", CHAT, long)
    yield Request("error.chat.context.stream", "POST", CHAT, {**long, "stream": True})
    yield Request("error.messages.context", "POST", MESSAGES, long)
    yield Request("error.chat.role", "POST", CHAT, {"messages": [{"role": "x", "content": "y"}]})
    yield Request("error.chat.no_messages", "POST", CHAT, {"messages": []})
    yield Request(
        "error.chat.content", "POST", CHAT, {"messages": [{"role": "user", "content": 5}]}
    )
    yield Request("error.chat.n", "POST", CHAT, {"messages": _turn(_HELLO), "n": 1000})
    yield Request("error.chat.required", "POST", CHAT, {
        "messages": _turn(_HELLO), "tool_choice": "required"})  # fmt: skip
    yield Request("error.chat.tool_name", "POST", CHAT, {
        "messages": _turn(_HELLO), "tools": [_TOOL],
        "tool_choice": {"type": "function", "function": {"name": "other"}}})  # fmt: skip
    yield Request("error.chat.schema", "POST", CHAT, {
        "messages": _turn(_HELLO),
        "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "x"}}}},
    )  # fmt: skip
    yield Request("error.chat.regex", "POST", CHAT, {
        "messages": _turn(_HELLO), "guided_regex": "("})  # fmt: skip
    yield Request("error.chat.grammar", "POST", CHAT, {
        "messages": _turn(_HELLO), "guided_grammar": "start: x"})  # fmt: skip
    yield Request("error.chat.bias", "POST", CHAT, {
        "messages": _turn(_HELLO), "logit_bias": {"x": 1}})  # fmt: skip
    for path in ("/v1/unknown", "/v1/messages/unknown", "/api/unknown", "/unknown"):
        yield Request(f"error.unknown{path.replace('/', '.')}", "GET", path)
    yield Request("error.options", "OPTIONS", CHAT, None, {
        **origin, "access-control-request-method": "POST"})  # fmt: skip
