"""Prompts and answers as the GenAI semantic conventions write them. Pure.

They are sent only if the environment variables ask for them
(https://opentelemetry.io/docs/specs/semconv/gen-ai/
gen-ai-spans/#capturing-instructions-inputs-and-outputs), as JSON of the schemas
``gen-ai-input-messages``, ``gen-ai-output-messages``, ``gen-ai-system-instructions`` and
``gen-ai-tool-definitions`` there. Instructions that stand in the conversation itself stay there.
"""

import json
from collections.abc import Sequence
from dataclasses import replace

from api.transport.observing import ObservedRun, RequestEnded
from engine import GenerationRequest, Message, Tool, ToolCall

_Part = dict[str, object]


def content_attributes(ended: RequestEnded, reasons: Sequence[str]) -> dict[str, str]:
    """Return the prompt and the answers of a request as attributes."""
    found = {}
    if ended.wanted:
        asked = _asked(ended.wanted)
        if ended.form.has_instructions and asked[0]["role"] == "system":
            found["gen_ai.system_instructions"] = _json(asked.pop(0)["parts"])
        found["gen_ai.input.messages"] = _json(asked)
        if ended.wanted[0].tools:
            found["gen_ai.tool.definitions"] = _json([_tool(one) for one in ended.wanted[0].tools])
    if ended.runs:
        prefix = ended.form.call_prefix
        answers = [_answer(run, why, prefix) for run, why in zip(ended.runs, reasons, strict=True)]
        found["gen_ai.output.messages"] = _json(answers)
    return found


def _asked(wanted: Sequence[GenerationRequest]) -> list[_Part]:
    request = wanted[0]
    if request.prompt is None:
        return [_message(one) for one in request.messages]
    prompts = dict.fromkeys(one.prompt for one in wanted if one.prompt is not None)
    return [{"role": "user", "parts": [_prompt(one)]} for one in prompts]


def _prompt(prompt: str | tuple[int, ...]) -> _Part:
    if isinstance(prompt, str):
        return {"type": "text", "content": prompt}
    return {"type": "token_ids", "content": list(prompt)}


def _message(message: Message) -> _Part:
    if message.role == "tool":
        answer = {
            "type": "tool_call_response",
            "id": message.tool_call_id,
            "response": message.content,
        }
        return {"role": "tool", "parts": [answer]}
    parts = _parts(message.thinking, message.content, message.tool_calls)
    return {"role": message.role, "parts": parts}


def _answer(run: ObservedRun, reason: str, prefix: str) -> _Part:
    """Return an answer; the ids of its calls are those that the client sends back."""
    calls = [replace(one.call, id=f"{prefix}{one.call.id}") for one in run.calls]
    parts = _parts("".join(run.thoughts), "".join(run.texts), calls)
    return {"role": "assistant", "parts": parts, "finish_reason": reason}


def _parts(thinking: str, text: str, calls: Sequence[ToolCall]) -> list[_Part]:
    parts: list[_Part] = []
    if thinking:
        parts.append({"type": "reasoning", "content": thinking})
    if text:
        parts.append({"type": "text", "content": text})
    parts += [_call(one) for one in calls]
    return parts


def _call(call: ToolCall) -> _Part:
    try:
        arguments: object = json.loads(call.arguments)
    except ValueError:
        arguments = call.arguments
    return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments}


def _tool(tool: Tool) -> _Part:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=dict)
