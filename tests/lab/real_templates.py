"""Renders random legal conversations through real chat templates, and counts what goes wrong.

    python -m tests.lab.real_templates FOLDER [--count 200] [--only NAME]

FOLDER has ``*.jinja`` files, in subfolders too. For each: how many conversations are rendered,
with nothing missing, and with a prefix that is stable when they grow (thinking left out); "own"
where the template itself changes the turns of a simple conversation.
"""

import argparse
import collections
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from mlx_lm.tokenizer_utils import load

from engine.conversation.template import ChatTemplate
from engine.inference.mlx_lm_internals import inner_tokenizer
from engine.inference.text import chat_template
from engine.values.request import GenerationRequest, Message, Tool, ToolCall
from tests.support.families import conversations
from tests.support.scripted import write_tokenizer

TOOL = Tool("read_file", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}})
_CALL = ToolCall("call_aaaaaaaaaaaaaaaaaaaaaaaa", "read_file", '{"path": "a"}')
_SIMPLE = (
    Message("user", "one"),
    Message("assistant", "", tool_calls=(_CALL,)),
    Message("tool", "two", tool_call_id=_CALL.id),
    Message("assistant", "", tool_calls=(replace(_CALL, id="call_bbbbbbbbbbbbbbbbbbbbbbbb"),)),
    Message("tool", "two", tool_call_id="call_bbbbbbbbbbbbbbbbbbbbbbbb"),
    Message("assistant", "three"),
    Message("user", "four"),
    Message("assistant", "five"),
    Message("user", "six"),
)


def load_template(text: str) -> ChatTemplate:
    """Return a chat template behind a small tokenizer."""
    with TemporaryDirectory() as folder:
        write_tokenizer(Path(folder), template="{{ messages }}")
        tokenizer = load(Path(folder))
    inner_tokenizer(tokenizer).chat_template = text
    inner_tokenizer(tokenizer).bos_token = "<|start|>"
    return chat_template(tokenizer)


def check(template: ChatTemplate, count: int, tools: tuple[Tool, ...]) -> list[str]:
    """Return a row of the table: rendered, nothing missing, stable."""

    def render(messages: Sequence[Message]) -> str:
        request = GenerationRequest(
            messages=tuple(messages), tools=tools, continues_last=False, opens_answer=False
        )
        return str(template.render(request, "model")[0])

    faults: collections.Counter[str] = collections.Counter()
    is_own = bool(conversations.unstable_turns(_SIMPLE, render))
    for seed in range(count):
        messages = conversations.random_conversation(seed)
        try:
            missing = conversations.missing_words(messages, render(messages))
            plain = conversations.without_thinking(messages)
            unstable = conversations.unstable_turns(plain, render)
        except Exception as error:
            faults["refused"] += 1
            faults[f"{seed}: {error}"[:150]] += 1
            continue
        faults["missing"] += bool(missing)
        faults["unstable"] += bool(unstable)
        if missing or (unstable and not is_own):
            faults[f"{seed}: {missing} {unstable}"[:150]] += 1
    rendered = count - faults.pop("refused", 0)
    row = [str(rendered), str(rendered - faults.pop("missing", 0))]
    row.append(str(rendered - faults.pop("unstable", 0)) + (" own" if is_own else ""))
    return [*row, *list(faults)[:2]]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="+")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    for file in sorted(file for folder in options.folder for file in folder.rglob("*.jinja")):
        if options.only not in file.name:
            continue
        template = load_template(file.read_text(encoding="utf-8"))
        for tools in ((), (TOOL,)):
            begun = time.perf_counter()
            learnt = template.rules(has_tools=bool(tools))
            learning_ms = 1000 * (time.perf_counter() - begun)
            row = check(template, options.count, tools)
            print(f"{file.stem:45} {'tools' if tools else '':5} {learning_ms:5.0f} ms", *row[:3])
            changes = {key: value for key, value in asdict(learnt).items() if value}
            print("       ", *(f"{key}={value}" for key, value in changes.items()))
            for fault in row[3:]:
                print("       ", fault)


if __name__ == "__main__":
    main()
