"""Curl commands and Python programs that repeat a run's request; API keys are variables."""

import json
from typing import Any

from api.conformance.captures.values import WireDialect
from api.conformance.probe.client import curl_command
from api.conformance.probe.values import Access

KEY_VARIABLE = "API_KEY"
# By the API's path: the vendor's package, its client and call, the parameters of the call (others
# go into the extra body), and the printed fields of the answer.
_PACKAGES = {
    "/v1/chat/completions": (
        "openai", "OpenAI", "chat.completions.create",
        frozenset(
            {"model", "messages", "stop", "max_tokens", "temperature", "top_p", "seed", "tools"}
        ),
        "answer.choices[0].message.content, answer.choices[0].finish_reason",
    ),
    "/v1/completions": (
        "openai", "OpenAI", "completions.create",
        frozenset({"model", "prompt", "stop", "max_tokens", "temperature", "top_p", "seed"}),
        "answer.choices[0].text, answer.choices[0].finish_reason",
    ),
    "/v1/responses": (
        "openai", "OpenAI", "responses.create",
        frozenset(
            {"model", "input", "instructions", "max_output_tokens", "temperature", "top_p",
             "reasoning", "tools"}
        ),
        "answer.output_text, answer.status",
    ),
    # The package's current major version has no sampling parameters, but the API has.
    "/v1/messages": (
        "anthropic", "Anthropic", "messages.create",
        frozenset(
            {"model", "messages", "system", "max_tokens", "stop_sequences", "thinking", "tools"}
        ),
        "answer.content, answer.stop_reason, answer.stop_sequence",
    ),
}  # fmt: skip
_STREAM_FIELDS = frozenset({"stream", "stream_options"})
_KEY = f'api_key=os.environ.get("{KEY_VARIABLE}", "unused")'


def curl_of(path: str, base_url: str, body: dict[str, Any]) -> str:
    """Return a shell command that posts a body to a path of a server."""
    # The path decides the headers.
    dialect = WireDialect.MESSAGES if path == "/v1/messages" else WireDialect.CHAT
    return curl_command(base_url + path, dialect, body, Access())


def python_of(path: str, base_url: str, body: dict[str, Any]) -> str:
    """Return a program that uses the vendor's own package, if there is one."""
    fields = {name: value for name, value in body.items() if name not in _STREAM_FIELDS}
    if path not in _PACKAGES:
        return (
            "import json\nimport urllib.request\n\n"
            f"body = {_literal({**fields, 'stream': False})}\n"
            "request = urllib.request.Request(\n"
            f"    {base_url + path!r},\n"
            "    data=json.dumps(body).encode(),\n"
            '    headers={"Content-Type": "application/json"},\n'
            ")\n"
            "with urllib.request.urlopen(request) as answer:\n"
            "    print(json.load(answer))\n"
        )
    package, client, call, own, result = _PACKAGES[path]
    url = f"{base_url}/v1" if package == "openai" else base_url
    return (
        f"import os\n\nimport {package}\n\n"
        f"client = {package}.{client}(base_url={url!r}, {_KEY})\n"
        f"answer = client.{call}({_arguments(fields, own)})\n"
        f"print({result})\n"
    )


def _arguments(body: dict[str, Any], own: frozenset[str]) -> str:
    """Return keyword arguments; parameters unknown to the package go into its extra body."""
    lines = [f"    {name}={_literal(body[name])}," for name in body if name in own]
    extra = {name: value for name, value in body.items() if name not in own}
    if extra:
        lines.append(f"    extra_body={_literal(extra)},")
    return "\n" + "\n".join(lines) + "\n"


def _literal(value: Any) -> str:
    # By way of JSON, because the representation of an enum's member is no literal.
    return repr(json.loads(json.dumps(value)))
