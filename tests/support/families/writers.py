"""How the model families that agents run write thinking, text and calls.

Facts of the published chat templates, in the tests' own words. ``Family.write`` returns the text
of one answer, special tokens spelled out, as the model would generate it behind its prompt.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Call = tuple[str, Mapping[str, Any]]
"""The name of a tool and its arguments."""

CHATML = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
THINK = ("<think>", "</think>")
TOOL_CALL = ("<tool_call>", "</tool_call>")


def _write_json(call: Call) -> str:
    name, arguments = call
    body = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"


def _write_function_tags(call: Call) -> str:
    name, arguments = call
    parameters = "".join(
        f"<parameter={key}>\n{_as_text(value)}\n</parameter>\n" for key, value in arguments.items()
    )
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


def _write_argument_tags(call: Call) -> str:
    name, arguments = call
    pairs = "".join(
        f"<arg_key>{key}</arg_key>\n<arg_value>{_as_text(value)}</arg_value>\n"
        for key, value in arguments.items()
    )
    return f"<tool_call>{name}\n{pairs}</tool_call>"


def _write_braces(call: Call) -> str:
    name, arguments = call
    return f"<|tool_call>call:{name}{_in_braces(arguments)}<tool_call|>"


def _in_braces(value: Any) -> str:
    if isinstance(value, str):
        return f'<|"|>{value}<|"|>'
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_in_braces(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_in_braces, value)) + "]"
    return json.dumps(value)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _write_think_tags(
    write_call: Callable[[Call], str], *, thinks: bool = True
) -> Callable[[str, str, str, Sequence[Call]], str]:
    def write(prompt: str, thinking: str, text: str, calls: Sequence[Call]) -> str:
        parts = []
        if prompt.rstrip().endswith("<think>"):
            parts.append(f"{thinking}\n</think>\n\n")
        elif thinks and thinking and not prompt.rstrip().endswith("</think>"):
            parts.append(f"<think>\n{thinking}\n</think>\n\n")
        parts += [text, "\n\n"] if text and calls else [text]
        return "".join([*parts, "\n".join(map(write_call, calls))])

    return write


def _write_harmony(prompt: str, thinking: str, text: str, calls: Sequence[Call]) -> str:
    messages = [f"<|channel|>analysis<|message|>{thinking}"] if thinking else []
    if calls:
        [(name, arguments), *_] = calls  # Harmony has one call a turn
        messages += [f"<|channel|>commentary<|message|>{text}"] if text else []
        messages.append(
            f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>"
            f"{json.dumps(arguments, ensure_ascii=False)}<|call|>"
        )
    else:
        messages.append(f"<|channel|>final<|message|>{text}<|return|>")
    return "<|end|><|start|>assistant".join(messages)


def _write_gemma4(prompt: str, thinking: str, text: str, calls: Sequence[Call]) -> str:
    is_open = prompt.rstrip().endswith("thought")
    thought = f"<|channel>thought\n{thinking}<channel|>" if thinking and not is_open else ""
    if is_open:
        thought = f"{thinking}<channel|>"
    return thought + text + "".join(map(_write_braces, calls))


def _write_mistral(prompt: str, thinking: str, text: str, calls: Sequence[Call]) -> str:
    return text + "".join(
        f"[TOOL_CALLS]{name}[ARGS]{json.dumps(arguments, ensure_ascii=False)}"
        for name, arguments in calls
    )


def _write_llama(prompt: str, thinking: str, text: str, calls: Sequence[Call]) -> str:
    if not calls:
        return text
    return "; ".join(
        json.dumps({"name": name, "parameters": arguments}, ensure_ascii=False)
        for name, arguments in calls
    )


def _write_deepseek(prompt: str, thinking: str, text: str, calls: Sequence[Call]) -> str:
    if not calls:
        return text
    written = "\n".join(
        f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n"
        f"{json.dumps(arguments, ensure_ascii=False)}\n```<｜tool▁call▁end｜>"
        for name, arguments in calls
    )
    return f"{text}<｜tool▁calls▁begin｜>{written}<｜tool▁calls▁end｜>"


def _write_python(prompt: str, thinking: str, text: str, calls: Sequence[Call]) -> str:
    if not calls:
        return text
    written = "\n".join(
        f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
        for name, arguments in calls
    )
    return f"```tool_code\n{written}\n```"


@dataclass(frozen=True)
class Family:
    """A family's tokens, and how it writes an answer.

    Attributes:
        name: As the agent cases call it.
        special: Its special tokens.
        eos: Those that end an answer; the first one is the tokenizer's.
        write: (prompt, thinking, text, calls) → the answer's text.
        plain: Added tokens that are text.
        bos: The token that begins a prompt; empty for none.
        can_think: Whether it writes thinking.
        writes_text_before_calls: Whether text and calls stand in one answer.
    """

    name: str
    special: tuple[str, ...]
    eos: tuple[str, ...]
    write: Callable[[str, str, str, Sequence[Call]], str]
    plain: tuple[str, ...] = ()
    bos: str = ""
    can_think: bool = True
    writes_text_before_calls: bool = True


_GLM_SPECIAL = (
    "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>",
    "<|endoftext|>",
)  # fmt: skip
_GEMMA4_SPECIAL = (
    "<bos>", "<eos>", "<|turn>", "<turn|>", "<|channel>", "<channel|>", "<|tool_call>",
    "<tool_call|>", "<|tool>", "<tool|>", "<|tool_response>", "<tool_response|>", '<|"|>',
    "<|think|>",
)  # fmt: skip
_MISTRAL_SPECIAL = (
    "<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]",
    "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[ARGS]",
    "[CALL_ID]",
)  # fmt: skip
_HARMONY_SPECIAL = (
    "<|start|>", "<|end|>", "<|channel|>", "<|message|>", "<|return|>", "<|call|>", "<|constrain|>",
)  # fmt: skip
_DEEPSEEK_SPECIAL = (
    "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>",
    "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>", "<｜tool▁outputs▁begin｜>", "<｜tool▁output▁begin｜>",
    "<｜tool▁output▁end｜>", "<｜tool▁outputs▁end｜>",
)  # fmt: skip
_LLAMA_SPECIAL = (
    "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
    "<|eot_id|>", "<|eom_id|>", "<|python_tag|>",
)  # fmt: skip
_CHATML_EOS = ("<|im_end|>", "<|endoftext|>")

FAMILIES = {
    family.name: family
    for family in (
        Family("qwen3", CHATML, _CHATML_EOS, _write_think_tags(_write_json), (*THINK, *TOOL_CALL)),
        Family(
            "qwen38",
            CHATML,
            _CHATML_EOS,
            _write_think_tags(_write_function_tags),
            (*THINK, *TOOL_CALL),
        ),
        Family(
            "qwen3coder",
            CHATML,
            _CHATML_EOS,
            _write_think_tags(_write_function_tags, thinks=False),
            TOOL_CALL,
            can_think=False,
        ),
        Family(
            "nemotron",
            CHATML,
            ("<|im_end|>",),
            _write_think_tags(_write_function_tags),
            (*THINK, *TOOL_CALL),
        ),
        Family("gptoss", _HARMONY_SPECIAL, ("<|return|>", "<|call|>"), _write_harmony),
        Family(
            "gemma3",
            ("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"),
            ("<end_of_turn>", "<eos>"),
            _write_python,
            bos="<bos>",
            can_think=False,
            writes_text_before_calls=False,
        ),
        Family("gemma4", _GEMMA4_SPECIAL, ("<turn|>", "<eos>"), _write_gemma4, bos="<bos>"),
        Family("mistral", _MISTRAL_SPECIAL, ("</s>",), _write_mistral, bos="<s>", can_think=False),
        Family(
            "glm",
            _GLM_SPECIAL,
            ("<|user|>", "<|endoftext|>", "<|observation|>"),
            _write_think_tags(_write_argument_tags),
            (*THINK, *TOOL_CALL, "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
        ),
        Family(
            "llama31",
            _LLAMA_SPECIAL,
            ("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"),
            _write_llama,
            bos="<|begin_of_text|>",
            can_think=False,
            writes_text_before_calls=False,
        ),
        Family(
            "deepseek",
            _DEEPSEEK_SPECIAL,
            ("<｜end▁of▁sentence｜>",),
            _write_deepseek,
            bos="<｜begin▁of▁sentence｜>",
            can_think=False,
        ),
    )
}
