"""Curl commands and Python programs that repeat a run's request; API keys are variables."""

import json
from typing import Any

from api.conformance.captures.values import WireDialect
from api.conformance.probe.client import curl_command
from api.conformance.probe.values import Access

KEY_VARIABLE = "API_KEY"
# Parameters that the vendors' packages know, by the API's path; others go into the extra body.
_OPENAI_OWN = {
    "/v1/chat/completions": frozenset(
        {"model", "messages", "stop", "max_tokens", "temperature", "top_p", "seed", "tools"}
    ),
    "/v1/completions": frozenset(
        {"model", "prompt", "stop", "max_tokens", "temperature", "top_p", "seed"}
    ),
    "/v1/responses": frozenset(
        {"model", "input", "instructions", "max_output_tokens", "temperature", "top_p",
         "reasoning", "tools"}
    ),
}  # fmt: skip
# The package's current major version has no sampling parameters, but the API has.
_MESSAGES_OWN = frozenset(
    {"model", "messages", "system", "max_tokens", "stop_sequences", "thinking", "tools"}
)
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
    match path:
        case "/v1/messages":
            return (
                "import os\n\nimport anthropic\n\n"
                f"client = anthropic.Anthropic(base_url={base_url!r}, {_KEY})\n"
                f"message = client.messages.create({_arguments(fields, _MESSAGES_OWN)})\n"
                "print(message.content, message.stop_reason, message.stop_sequence)\n"
            )
        case "/v1/chat/completions" | "/v1/completions":
            is_chat = path == "/v1/chat/completions"
            call = "chat.completions.create" if is_chat else "completions.create"
            text = "message.content" if is_chat else "text"
            return (
                f"{_openai(base_url)}"
                f"answer = client.{call}({_arguments(fields, _OPENAI_OWN[path])})\n"
                "choice = answer.choices[0]\n"
                f"print(choice.{text}, choice.finish_reason, choice.matched_stop)\n"
            )
        case "/v1/responses":
            return (
                f"{_openai(base_url)}"
                f"response = client.responses.create({_arguments(fields, _OPENAI_OWN[path])})\n"
                "print(response.output_text, response.status)\n"
            )
        case "/api/chat":
            return (
                "import ollama\n\n"
                f"client = ollama.Client(host={base_url!r})\n"
                f"answer = client.chat({_arguments(fields, frozenset(fields))})\n"
                "print(answer.message.content, answer.done_reason)\n"
            )
        case _:
            return (
                "import json\nimport urllib.request\n\n"
                f"body = {_literal(fields)}\n"
                "request = urllib.request.Request(\n"
                f"    {base_url + path!r},\n"
                "    data=json.dumps(body).encode(),\n"
                '    headers={"Content-Type": "application/json"},\n'
                ")\n"
                "with urllib.request.urlopen(request) as answer:\n"
                "    print(json.load(answer))\n"
            )


def _openai(base_url: str) -> str:
    url = f"{base_url}/v1"
    return f"import os\n\nimport openai\n\nclient = openai.OpenAI(base_url={url!r}, {_KEY})\n"


def _arguments(body: dict[str, Any], own: frozenset[str]) -> str:
    """Return keyword arguments; parameters unknown to the package go into its extra body."""
    lines = [f"    {name}={_literal(body[name])}," for name in body if name in own]
    extra = {name: value for name, value in body.items() if name not in own}
    if extra:
        lines.append(f"    extra_body={_literal(extra)},")
    return "\n" + "\n".join(lines) + "\n"


def _literal(value: Any) -> str:
    assert json.dumps(value)
    return repr(value)
