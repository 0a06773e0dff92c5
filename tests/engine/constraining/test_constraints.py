"""Answers that are held to a JSON schema, or to a tool call, whatever the model prefers."""

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from engine.constraining import constraints
from engine.constraining.token_constraint import TokenConstraint
from engine.errors import InvalidRequest
from engine.scheduling.generation import Answer
from engine.scheduling.service import Engine
from engine.stopping.record import StopKind
from engine.stopping.rules import StopRules
from engine.values.chat import Message, Tool
from engine.values.events import Finished, TokenTrace
from engine.values.request import (
    GenerationRequest,
    OutputConstraint,
    Sampling,
    ToolChoice,
    TraceLevel,
)
from tests.support.asking import ask, events_of, request, run, scripted_answer
from tests.support.scripted import TEMPLATE, Stage


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


WORD = {"type": "string", "maxLength": 12}
SCHEMAS: dict[str, dict[str, Any]] = {
    "object": closed(name=WORD, age={"type": "integer", "minimum": 0, "maximum": 150}),
    "enum": {"enum": ["red", "grün", 7, None, {"a": [1]}]},
    "array": {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 4},
    "nested": closed(
        list={"type": "array", "items": closed(x={"enum": ["a", "b"]}), "maxItems": 2},
        deep=closed(deeper=closed(deepest=WORD)),
    ),
    "numbers": closed(
        whole={"type": "integer", "minimum": -5, "maximum": 5},
        ratio={"type": "number", "minimum": 0, "maximum": 1},
        tens={"type": "integer", "multipleOf": 10, "minimum": 0, "maximum": 90},
    ),
    "unicode": closed(**{"naïve ключ 🦊": {"const": "„ja“ 日本 \u0001\"\\"}}, text=WORD),
    "marks of grammars": closed(a={"const": '// # } %json | "x" \u2028 <[5]>'}),
    "optional": {
        "type": "object",
        "properties": {"a": WORD, "b": {"type": ["integer", "null"], "maximum": 9, "minimum": 0}},
        "additionalProperties": False,
    },
    "references": {
        "$defs": {"point": closed(x={"enum": [1, 2]}, y={"enum": [3, 4]})},
        **closed(from_={"$ref": "#/$defs/point"}, to={"$ref": "#/$defs/point"}),
    },
    "either": {"anyOf": [closed(kind={"const": "a"}), closed(kind={"const": "b"}, more=WORD)]},
    "pattern": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"},
    "date": closed(day={"type": "string", "format": "date"}),
}  # fmt: skip
POINT = closed(x={"type": "integer", "minimum": 0, "maximum": 99})


def held(schema: dict[str, Any] | None) -> OutputConstraint:
    return OutputConstraint(schema)


async def ask_all(engine: Engine, requests: list[GenerationRequest]) -> list[Answer]:
    async def one(wanted: GenerationRequest) -> Answer:
        return await (await engine.generate(wanted)).collect()

    return list(await asyncio.gather(*(one(wanted) for wanted in requests)))


# -- JSON --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_answer_satisfies_its_schema(engine: Engine, name: str) -> None:
    schema = SCHEMAS[name]
    sampling = [Sampling(temperature=0), *(Sampling(temperature=1.5, seed=n) for n in range(3))]
    answers = run(
        ask_all(
            engine,
            [
                request("Say: hello", constraint=held(schema), sampling=each, max_tokens=600)
                for each in sampling
            ],
        )
    )
    for answer in answers:
        assert answer.finished.stop.kind is StopKind.EOS, answer.text
        jsonschema.validate(json.loads(answer.text), schema)


OPEN = {"type": "object", "properties": {"name": {"enum": ["a", "b"]}}, "required": ["name"]}


@pytest.mark.parametrize("allows_more", [False, True])
def test_a_model_adds_keys_of_its_own_only_where_the_request_allows_it(
    engine: Engine, allows_more: bool
) -> None:
    asked = [
        request(
            "Say: hello",
            constraint=held(OPEN),
            sampling=Sampling(temperature=1.5, seed=seed),
            max_tokens=200,
            allows_more_keys=allows_more,
        )
        for seed in range(8)
    ]
    answers = run(ask_all(engine, asked))
    if allows_more:
        # It runs on to the limit, or writes keys that nobody asked for.
        assert any(
            a.finished.stop.kind is StopKind.MAX_TOKENS or json.loads(a.text).keys() != {"name"}
            for a in answers
        )
    else:
        assert all(json.loads(a.text).keys() == {"name"} for a in answers)


def test_a_required_call_has_the_arguments_of_its_tool_alone(engine: Engine) -> None:
    tool = Tool("choose", "", OPEN)
    for seed in range(4):
        sampling = Sampling(temperature=1.5, seed=seed)
        wanted = ToolChoice("required")
        answer = run(ask(engine, "Hi", tools=(tool,), tool_choice=wanted, sampling=sampling))
        assert json.loads(answer.tool_calls[0].arguments).keys() == {"name"}


def test_json_after_a_raw_prompt_begins_with_the_first_token(engine: Engine) -> None:
    raw = GenerationRequest(prompt="Hi", constraint=held(OPEN), max_tokens=60)
    [answer] = run(ask_all(engine, [raw]))

    assert answer.text in ('{"name": "a"}', '{"name": "b"}')
    assert not answer.thinking


def test_any_json_object_will_do_where_there_is_no_schema(engine: Engine) -> None:
    sampling = [Sampling(temperature=1, seed=n) for n in range(4)]
    asked = [
        request("Say: hello", constraint=held(None), sampling=each, max_tokens=300)
        for each in sampling
    ]
    answers = run(ask_all(engine, asked))
    whole = [a for a in answers if a.finished.stop.kind is StopKind.EOS]
    assert whole
    for answer in answers:
        assert answer.text.startswith("{")
    for answer in whole:
        assert isinstance(json.loads(answer.text), dict)


def test_rows_of_different_schemas_share_a_batch(engine: Engine) -> None:
    asked = [
        request(f"Say: {name}", constraint=held(schema), max_tokens=600)
        for name, schema in SCHEMAS.items()
    ]
    for answer, schema in zip(run(ask_all(engine, asked)), SCHEMAS.values(), strict=True):
        jsonschema.validate(json.loads(answer.text), schema)


def test_free_rows_beside_constrained_ones_answer_as_usual(engine: Engine) -> None:
    texts = ["Say: hello", "Count from 1 to 9", "Say: blue frog"]
    free = [request(text, max_tokens=40) for text in texts]
    usual = [answer.text for answer in run(ask_all(engine, free))]
    asked = [
        wanted
        for one in free
        for wanted in (one, request("Say: x", constraint=held(POINT), max_tokens=60))
    ]
    answers = run(ask_all(engine, asked))
    assert [answer.text for answer in answers[::2]] == usual
    for answer in answers[1::2]:
        jsonschema.validate(json.loads(answer.text), POINT)


def test_a_row_that_joins_from_a_cached_prefix_is_constrained_from_its_first_token(
    engine: Engine,
) -> None:
    async def play() -> Answer:
        first = (Message("user", "Say: cached prefix of a conversation"),)
        answer = await (await engine.generate(GenerationRequest(first, max_tokens=8))).collect()
        turns = (*first, Message("assistant", answer.text), Message("user", "And now?"))
        wanted = GenerationRequest(turns, constraint=held(POINT), max_tokens=60)
        return await (await engine.generate(wanted)).collect()

    answer = run(play())
    assert answer.finished.usage.cached_tokens > 0
    jsonschema.validate(json.loads(answer.text), POINT)


def test_the_same_prompt_again_is_constrained_again(engine: Engine) -> None:
    first, second = (
        run(ask(engine, "Say: twice", constraint=held(POINT), max_tokens=60)) for _ in range(2)
    )
    assert second.finished.usage.cached_tokens > 0
    assert second.text == first.text


def test_penalties_and_biases_cannot_break_the_schema(engine: Engine) -> None:
    sampling = Sampling(
        temperature=2,
        top_k=5,
        top_p=0.5,
        min_p=0.2,
        seed=3,
        frequency_penalty=2,
        repetition_penalty=1.5,
        logit_bias=tuple((token_id, 100.0) for token_id in range(300, 340)),
    )
    schema = SCHEMAS["nested"]
    answer = run(ask(engine, "Say: x", constraint=held(schema), sampling=sampling, max_tokens=600))
    jsonschema.validate(json.loads(answer.text), schema)


def test_the_limit_ends_a_constrained_answer_as_the_limit(engine: Engine) -> None:
    endless = closed(n={"type": "array", "items": {"type": "integer"}, "minItems": 5000})
    answer = run(ask(engine, "Say: x", constraint=held(endless), max_tokens=20))
    assert answer.finished.stop.kind is StopKind.MAX_TOKENS
    assert answer.finished.usage.output_tokens == 20
    assert answer.text.startswith("{")


def test_the_trace_names_only_tokens_that_were_possible(engine: Engine) -> None:
    events = run(
        events_of(
            engine,
            "Say: x",
            constraint=held({"const": "abc"}),
            trace=TraceLevel.FULL,
            top_logprobs=20,
        )
    )
    stats = [event.stats for event in events if isinstance(event, TokenTrace)]
    assert stats
    for each in stats:
        assert each is not None
        assert each.top
        assert all(math.isfinite(logprob) for _, logprob in each.top)


# -- what the model wants and what it gets, token by token ---------------------------------------


def test_eos_is_impossible_before_the_answer_is_complete(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ['{"x"', ":"]})  # and then EOS for ever
    answer = scripted_answer(stage, "go", constraint=held(closed(x={"enum": [1, 2]})))
    assert json.loads(answer.text) in ({"x": 1}, {"x": 2})
    assert answer.finished.stop.kind is StopKind.EOS


def test_nothing_but_eos_is_possible_once_the_answer_is_complete(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ['{"x":', "5", "}", " and", " more"]})
    answer = scripted_answer(stage, "go", constraint=held(POINT))
    assert answer.text == '{"x":5}'
    assert answer.finished.stop.kind is StopKind.EOS
    assert answer.finished.usage.output_tokens == 4


def test_a_model_that_would_rather_write_prose_writes_json(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["Sure", "! Here", " it", " is", ": {}"]})
    answer = scripted_answer(stage, "go", constraint=held(POINT), max_tokens=60)
    jsonschema.validate(json.loads(answer.text), POINT)


def test_a_stop_string_cuts_a_constrained_answer(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ['{"s":"', "one ", "ST", "OP two", '"}']})
    answer = scripted_answer(stage, "go", "STOP", constraint=held(closed(s={"type": "string"})))
    assert answer.text == '{"s":"one '
    assert answer.finished.stop.kind is StopKind.STOP_STRING


def test_a_stop_id_that_the_grammar_allows_ends_the_answer(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ['{"s":"', "one", "X", '"}']})
    rules = StopRules(token_ids=(stage.id("X"),))
    answer = scripted_answer(
        stage, "go", rules=rules, constraint=held(closed(s={"type": "string"}))
    )
    assert answer.text == '{"s":"one'
    assert answer.finished.stop.kind is StopKind.STOP_TOKEN


def test_characters_of_several_tokens_are_whole(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ['{"s":"', *"日本🦊", '"}']}, pieces=['{"s":"', '"}'])
    answer = scripted_answer(stage, "go", constraint=held(closed(s={"type": "string"})))
    assert json.loads(answer.text) == {"s": "日本🦊"}


def test_tags_typed_out_in_a_string_are_text(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path,
        {"go": ['{"s":"', "<tool", "_call>", "<think", ">", '"}']},
        plain=["<think>", "</think>", "<tool_call>", "</tool_call>"],
        pieces=['{"s":"', "<tool", "_call>", "<think", ">", '"}'],
        template=TEMPLATE + "{# <tool_call> tool_call.name #}",
    )
    answer = scripted_answer(stage, "go", constraint=held(closed(s={"type": "string"})))
    assert json.loads(answer.text) == {"s": "<tool_call><think>"}
    assert answer.tool_calls == ()


@pytest.mark.parametrize("tag", ["<tool_call>", "[TAG]", "<think>"])
def test_a_tag_itself_is_impossible_in_a_string(tmp_path: Path, tag: str) -> None:
    stage = Stage(
        tmp_path,
        {"go": ['{"s":"', tag, '"}']},
        plain=["<think>", "</think>", "<tool_call>", "</tool_call>"],
        special=["[TAG]"],
        template=TEMPLATE + "{# <tool_call> tool_call.name #}",
    )
    constraint = held(closed(s={"type": "string", "maxLength": 8}))
    answer = scripted_answer(stage, "go", constraint=constraint, max_tokens=60)
    value = json.loads(answer.text)["s"]
    assert tag not in value
    assert value


def test_a_tag_of_no_special_spelling_is_impossible_in_a_string(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path,
        {"go": ['{"s":"', "[TOOL_CALLS]", '"}']},
        plain=["[TOOL_CALLS]"],
        template=TEMPLATE + "{# [TOOL_CALLS] #}",
    )
    # Taken for its characters, it would fill the string and then be missing from the text.
    schema = closed(s={"type": "string", "minLength": 3, "maxLength": 20})
    answer = scripted_answer(stage, "go", constraint=held(schema), max_tokens=60)
    jsonschema.validate(json.loads(answer.text), schema)


def test_a_typed_tag_of_several_tokens_is_text_in_a_string(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path,
        {"go": ['{"s":"', "<minimax:", "tool_call>", '"}']},
        template=TEMPLATE + "{# <minimax:tool_call> #}",
    )
    answer = scripted_answer(stage, "go", constraint=held(closed(s={"type": "string"})))
    assert json.loads(answer.text) == {"s": "<minimax:tool_call>"}


# -- reasoning ---------------------------------------------------------------------------------

TAGS = ["<think>", "</think>"]
OPENED = TEMPLATE.replace("<|go|>", "<think>\n<|go|>")
CLOSED = TEMPLATE.replace("<|go|>", "<think>\n\n</think>\n\n<|go|>")


def test_reasoning_that_the_template_opened_stays_free(tmp_path: Path) -> None:
    script = ["let me", " think", "</think>", "\n\n", '{"x":', "7", "}"]
    stage = Stage(tmp_path, {"go": script}, plain=TAGS, template=OPENED)
    answer = scripted_answer(stage, "go", constraint=held(POINT))
    assert (answer.thinking, answer.text) == ("let me think", '{"x":7}')


def test_reasoning_that_the_model_opens_stays_free(tmp_path: Path) -> None:
    script = ["<think>", "\nhm {", "</think>", "\n\n", '{"x":', "7", "}"]
    stage = Stage(tmp_path, {"go": script}, plain=TAGS)
    answer = scripted_answer(stage, "go", constraint=held(POINT))
    assert (answer.thinking, answer.text) == ("hm {", '{"x":7}')


def test_a_model_that_may_reason_need_not(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ['{"x":', "7", "}"]}, plain=TAGS)
    answer = scripted_answer(stage, "go", constraint=held(POINT))
    assert (answer.thinking, answer.text) == ("", '{"x":7}')


def test_prose_after_reasoning_becomes_json(tmp_path: Path) -> None:
    script = ["<think>", "hm", "</think>", "The answer is", " seven"]
    stage = Stage(tmp_path, {"go": script}, plain=TAGS)
    answer = scripted_answer(stage, "go", constraint=held(POINT), max_tokens=80)
    assert answer.thinking == "hm"
    jsonschema.validate(json.loads(answer.text), POINT)


def test_reasoning_cannot_end_the_answer(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["hm"]}, plain=TAGS, template=OPENED)  # and then EOS
    answer = scripted_answer(stage, "go", constraint=held(POINT), max_tokens=30)
    assert answer.finished.stop.kind is StopKind.MAX_TOKENS
    assert answer.finished.usage.thinking_tokens == 30


@pytest.mark.parametrize("template", [TEMPLATE, CLOSED])
def test_switched_off_reasoning_is_impossible(tmp_path: Path, template: str) -> None:
    script = ["<think>", "hm", "</think>", '{"x":', "7", "}"]
    stage = Stage(tmp_path, {"go": script}, plain=TAGS, template=template)
    answer = scripted_answer(stage, "go", constraint=held(POINT), thinking=False, max_tokens=80)
    assert answer.thinking == ""
    jsonschema.validate(json.loads(answer.text), POINT)


def test_the_demo_model_thinks_and_then_obeys(engine: Engine) -> None:
    asked = request("Say: hello", constraint=held(POINT), thinking=True, max_tokens=200)
    [answer] = run(ask_all(engine, [asked]))
    if answer.finished.stop.kind is StopKind.EOS:
        jsonschema.validate(json.loads(answer.text), POINT)
    else:  # a weak model may think for ever
        assert (answer.text, answer.finished.stop.kind) == ("", StopKind.MAX_TOKENS)


def test_reasoning_whose_tags_are_several_tokens_is_refused(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path,
        {"go": ["x"]},
        plain=["<|channel>", "<channel|>"],
        template=TEMPLATE,
    )
    with pytest.raises(InvalidRequest, match="tags of several tokens") as refusal:
        scripted_answer(stage, "go", constraint=held(POINT), thinking=True)
    assert refusal.value.field == "thinking"


# -- tool calls --------------------------------------------------------------------------------

ADD = Tool("add", "Adds.", closed(a={"type": "integer", "minimum": 0, "maximum": 99}))
SAY = Tool("say \"it\"", "Says.", closed(text={"type": "string", "maxLength": 9}))  # fmt: skip
CALL_TAGS = ["<tool_call>", "</tool_call>"]


def json_calls(folder: Path, script: list[str | int], **options: Any) -> Stage:
    template = options.pop("template", TEMPLATE) + "{# <tool_call> tool_call.name #}"
    plain = [*CALL_TAGS, *options.pop("plain", ())]
    return Stage(folder, {"go": script}, plain=plain, template=template, **options)


def check_call(answer: Answer, *tools: Tool) -> None:
    [call] = answer.tool_calls
    [tool] = [tool for tool in tools if tool.name == call.name]
    jsonschema.validate(json.loads(call.arguments), dict(tool.parameters))
    assert answer.text == ""
    assert answer.finished.stop.kind is StopKind.TOOL_CALL


@pytest.mark.parametrize("seed", range(3))
def test_a_required_call_is_a_valid_call_of_one_of_the_tools(engine: Engine, seed: int) -> None:
    answer = run(
        ask(
            engine,
            "Say: hello",
            tools=(ADD, SAY),
            tool_choice=ToolChoice("required"),
            sampling=Sampling(temperature=1.5, seed=seed),
            thinking=False,
            max_tokens=300,
        )
    )
    check_call(answer, ADD, SAY)


@pytest.mark.parametrize("tool", [ADD, SAY], ids=["add", "say"])
def test_a_named_tool_is_the_one_that_is_called(engine: Engine, tool: Tool) -> None:
    choice = ToolChoice("required", tool.name)
    answer = run(
        ask(
            engine,
            "Say: hello",
            tools=(ADD, SAY),
            tool_choice=choice,
            thinking=False,
            max_tokens=300,
        )
    )
    check_call(answer, tool)


def test_a_model_that_would_rather_talk_calls(tmp_path: Path) -> None:
    stage = json_calls(tmp_path, ["I", " would", " rather", " not"])
    choice = ToolChoice("required", "add")
    answer = scripted_answer(stage, "go", tools=(ADD,), tool_choice=choice, max_tokens=200)
    check_call(answer, ADD)


def test_a_required_call_comes_after_reasoning(tmp_path: Path) -> None:
    # What is forced has the tokens of the tokenizer: one for each letter.
    frame = list('\n{"name": "add", "arguments": {')
    call = ["<tool_call>", *frame, '"a":', "4", "}}\n", "</tool_call>"]
    script = ["hm", "<tool_call>", "hm", "</think>", "\n\n", *call]
    stage = json_calls(tmp_path, script, plain=TAGS, template=OPENED)
    choice = ToolChoice("required")
    answer = scripted_answer(stage, "go", tools=(ADD,), tool_choice=choice, max_tokens=200)
    check_call(answer, ADD)
    assert answer.thinking.startswith("hm")
    assert json.loads(answer.tool_calls[0].arguments) == {"a": 4}


def test_a_required_call_cut_by_the_limit_is_the_limit(tmp_path: Path) -> None:
    stage = json_calls(tmp_path, ["no"])
    choice = ToolChoice("required")
    answer = scripted_answer(stage, "go", tools=(ADD,), tool_choice=choice, max_tokens=9)
    assert (answer.tool_calls, answer.finished.stop.kind) == ((), StopKind.MAX_TOKENS)


@pytest.mark.parametrize(
    ("script", "calls"),
    [
        (['{"x":', "7", "}"], 0),
        (["<tool_call>", '\n{"name": "add", "arguments": {"a":', "4", "}}\n", "</tool_call>"], 1),
    ],
    ids=["answers", "calls"],
)
def test_with_tools_the_model_may_call_or_answer_in_json(
    tmp_path: Path, script: list[str | int], calls: int
) -> None:
    answer = scripted_answer(
        json_calls(tmp_path, script), "go", tools=(ADD,), constraint=held(POINT), max_tokens=200
    )
    assert len(answer.tool_calls) == calls
    assert answer.text == ("" if calls else '{"x":7}')


def test_tool_choice_none_keeps_the_tools_from_the_prompt(engine: Engine) -> None:
    async def play() -> tuple[int, int, int]:
        without = request("Say: hello")
        some = request("Say: hello", tools=(ADD,))
        none = request("Say: hello", tools=(ADD,), tool_choice=ToolChoice("none"))
        counts = [await engine.count_tokens(wanted) for wanted in (without, some, none)]
        return counts[0], counts[1], counts[2]

    without, some, none = run(play())
    assert none == without
    assert some > without


def test_tool_choice_none_makes_a_call_impossible(tmp_path: Path) -> None:
    call = ["<tool_call>", '\n{"name": "add", "arguments": {"a":', "4", "}}\n", "</tool_call>"]
    stage = json_calls(tmp_path, ["Well. ", *call])
    answer = scripted_answer(stage, "go", tools=(ADD,), tool_choice=ToolChoice("none"))
    assert answer.tool_calls == ()
    assert answer.text.startswith("Well. ")


@pytest.mark.parametrize(
    ("tags", "marker"),
    [
        (["<|tool_call_start|>", "<|tool_call_end|>"], "<|tool_call_start|>"),
        (CALL_TAGS, "<tool_call>\n<function="),
        ([], ""),
    ],
    ids=["pythonic", "xml", "no calls"],
)
def test_calls_of_another_style_are_refused(tmp_path: Path, tags: list[str], marker: str) -> None:
    stage = Stage(tmp_path, {"go": ["x"]}, plain=tags, template=TEMPLATE + "{# " + marker + " #}")
    with pytest.raises(InvalidRequest, match="JSON between tags") as refusal:
        scripted_answer(stage, "go", tools=(ADD,), tool_choice=ToolChoice("required"))
    assert refusal.value.field == "tool_choice"


def test_a_schema_beside_tools_of_another_style_is_refused(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["x"]})
    with pytest.raises(InvalidRequest, match="beside tools") as refusal:
        scripted_answer(stage, "go", tools=(ADD,), constraint=held(POINT))
    assert refusal.value.field == "constraint"


# -- Harmony -----------------------------------------------------------------------------------

HARMONY: dict[str, Any] = {
    "special": ["<|channel|>", "<|message|>", "<|return|>", "<|call|>", "<|constrain|>"],
    "eos": "<|return|>",
    "template": (
        "{% for m in messages %}<|start|>{{ m.role }}:<|message|>user:{{ m.content }}<|end|>"
        "{% endfor %}{% if add_generation_prompt %}<|start|>assistant<|go|>{% endif %}"
    ),
}
ANALYSIS = ["<|channel|>", "analysis", "<|message|>", "hm {", "<|end|>", "<|start|>", "assistant"]


def harmony(folder: Path, script: list[str | int]) -> Stage:
    stage = Stage(folder, {"go": script}, **HARMONY)
    stage.wrapper.add_eos_token("<|call|>")
    return stage


@pytest.mark.parametrize("analysis", [ANALYSIS, []], ids=["reasons", "does not"])
def test_the_final_message_of_harmony_is_constrained(tmp_path: Path, analysis: list[str]) -> None:
    script = [*analysis, "<|channel|>", "final", "<|message|>", '{"x":', "7", "}", "junk"]
    answer = scripted_answer(harmony(tmp_path, script), "go", constraint=held(POINT))
    assert (answer.thinking, answer.text) == ("hm {" if analysis else "", '{"x":7}')
    assert answer.finished.stop.kind is StopKind.EOS


def test_a_final_message_marked_as_json_is_one_as_well(tmp_path: Path) -> None:
    header = ["<|channel|>", "final", " ", "<|constrain|>", "json", "<|message|>"]
    stage = harmony(tmp_path, [*header, '{"x":', "7", "}"])
    assert scripted_answer(stage, "go", constraint=held(POINT)).text == '{"x":7}'


def test_a_harmony_preamble_gives_way_to_the_json(tmp_path: Path) -> None:
    script = [*ANALYSIS, "<|channel|>", "commentary", "<|message|>", "I will look.", "<|end|>"]
    stage = harmony(tmp_path, script)
    answer = scripted_answer(stage, "go", constraint=held(POINT), max_tokens=200)
    jsonschema.validate(json.loads(answer.text), POINT)


def test_a_harmony_call_can_be_required(tmp_path: Path) -> None:
    script = [*ANALYSIS, "<|channel|>", "final", "<|message|>", "No."]
    choice = ToolChoice("required", "add")
    answer = scripted_answer(
        harmony(tmp_path, script), "go", tools=(ADD,), tool_choice=choice, max_tokens=200
    )
    check_call(answer, ADD)
    assert answer.thinking == "hm {"


def test_a_raw_prompt_of_harmony_is_refused(tmp_path: Path) -> None:
    async def play() -> None:
        engine = Engine(loader=harmony(tmp_path, ["x"]).load)
        try:
            await engine.load(tmp_path)
            await engine.generate(GenerationRequest(prompt="go", constraint=held(POINT)))
        finally:
            await engine.aclose()

    with pytest.raises(InvalidRequest, match="needs messages"):
        run(play())


# -- refusals ----------------------------------------------------------------------------------

BAD_SCHEMAS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown type": ({"type": "objekt"}, "objekt"),
    "unsupported keyword": ({"not": {"type": "string"}}, "not supported"),
    "look-around": ({"type": "string", "pattern": "(?=a)b"}, "look-around"),
    "overlapping oneOf": ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "use anyOf"),
    "remote reference": ({"$ref": "http://127.0.0.1:1/x.json"}, "not present"),
    "missing reference": ({"$ref": "#/$defs/x"}, "does not exist"),
    "unsatisfiable": ({"type": "integer", "minimum": 5, "maximum": 3}, "Unsatisfiable"),
    "reference to itself": (
        {"$ref": "#/$defs/x", "$defs": {"x": {"$ref": "#/$defs/x"}}},
        "no value can satisfy",
    ),
    "not JSON": ({"const": {1, 2}}, "not JSON"),
    "not a number": ({"const": math.nan}, "JSON"),
    "lone surrogate": ({"const": "\ud800"}, "surrogate"),
    "too long": ({"enum": ["x" * 300_000]}, "longer than"),
    "switches of the library": ({"not": {}, "x-guidance": {"lenient": True}}, "not supported"),
}


def too_deep() -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(5000):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.mark.parametrize("name", BAD_SCHEMAS)
def test_a_schema_that_cannot_be_met_is_refused(engine: Engine, name: str) -> None:
    schema, reason = BAD_SCHEMAS[name]
    with pytest.raises(InvalidRequest, match=reason) as refusal:
        run(ask(engine, "Say: x", constraint=held(schema)))
    assert refusal.value.field == "constraint.json_schema"
    assert "\n" not in refusal.value.reason
    assert run(ask(engine, "Say: x", max_tokens=2)).finished.usage.output_tokens > 0


def test_a_schema_nested_without_end_is_refused(engine: Engine) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        run(ask(engine, "Say: x", constraint=held(too_deep())))
    assert refusal.value.field == "constraint.json_schema"


def test_a_bad_schema_of_a_tool_is_named(engine: Engine) -> None:
    bad = Tool("bad", "", {"type": "object", "properties": {"a": {"type": "objekt"}}})
    with pytest.raises(InvalidRequest, match="objekt") as refusal:
        run(ask(engine, "Say: x", tools=(ADD, bad), tool_choice=ToolChoice("required")))
    assert refusal.value.field == "tools.bad.parameters"


@pytest.mark.parametrize(
    ("choice", "tools", "reason"),
    [
        (ToolChoice("required"), (), "there are no tools"),
        (ToolChoice("required", "mul"), (ADD, SAY), "no tool 'mul'"),
        (ToolChoice("auto", "add"), (ADD,), "only where one is required"),
    ],
)
def test_a_choice_that_cannot_be_is_refused(
    engine: Engine, choice: ToolChoice, tools: tuple[Tool, ...], reason: str
) -> None:
    with pytest.raises(InvalidRequest, match=reason) as refusal:
        run(ask(engine, "Say: x", tools=tools, tool_choice=choice))
    assert refusal.value.field == "tool_choice"


def test_a_begun_answer_cannot_be_constrained(engine: Engine) -> None:
    turns = (Message("user", "Say: x"), Message("assistant", "Well"))

    async def play() -> None:
        await engine.generate(GenerationRequest(turns, constraint=held(POINT)))

    with pytest.raises(InvalidRequest, match="assistant's") as refusal:
        run(play())
    assert refusal.value.field == "constraint"


# -- faults and costs --------------------------------------------------------------------------


def test_an_answer_that_leaves_its_grammar_ends_in_an_error_and_spares_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path, {"go": ['{"x":', "7", "}"], "free": ["a", "b", "c", "d", "e"]})
    answered = TokenConstraint.allowed
    asked: list[int] = []

    def allowed(self: TokenConstraint) -> bytes:
        asked.append(1)
        if len(asked) == 2:
            self.advance(stage.id("a"))  # as if the model had sampled it
        return answered(self)

    monkeypatch.setattr(TokenConstraint, "allowed", allowed)

    async def play() -> tuple[Answer, Answer, Answer]:
        engine = Engine(loader=stage.load)
        await engine.load(tmp_path)
        bad, free = await ask_all(engine, [request("go", constraint=held(POINT)), request("free")])
        again = await ask(engine, "go", constraint=held(POINT))
        await engine.aclose()
        return bad, free, again

    bad, free, again = run(play())
    assert bad.finished.stop.kind is StopKind.ERROR
    assert "could not be constrained" in (bad.finished.error or "")
    assert free.text == "abcde"
    assert again.text == '{"x":7}'


def test_a_grammar_is_compiled_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    compile_grammar = constraints.new_matcher

    def counted(adapter: Any, grammar: str) -> Any:
        compiled.append(grammar)
        return compile_grammar(adapter, grammar)

    monkeypatch.setattr(constraints, "new_matcher", counted)
    schema = {"const": "compiled once"}
    for _ in range(3):
        run(ask(engine, "Say: x", constraint=held(schema)))
    assert len(compiled) == 1


def test_a_cancelled_constrained_answer_ends_as_cancelled(engine: Engine) -> None:
    endless = closed(n={"type": "array", "items": {"type": "integer"}, "minItems": 5000})

    async def play() -> Finished:
        generation = await engine.generate(request("Say: x", constraint=held(endless)))
        async for event in generation.events():
            if isinstance(event, Finished):
                return event
            generation.cancel()
        raise AssertionError("no end")

    assert run(play()).stop.kind is StopKind.CANCELLED


class PanicException(BaseException):
    """As Rust's panics reach Python: no ``Exception``."""


class Panicking:
    """A matcher that panics at its second mask, or at its first token."""

    def __init__(self, matcher: Any, at: str) -> None:
        self._matcher = matcher
        self._at = at
        self._masks = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._matcher, name)

    def deep_copy(self) -> "Panicking":
        return Panicking(self._matcher.deep_copy(), self._at)

    def compute_bitmask(self) -> bytes:
        self._masks += 1
        if self._at == "mask" and self._masks == 2:
            raise PanicException("index out of bounds")
        found: bytes = self._matcher.compute_bitmask()
        return found

    def consume_token(self, token_id: int) -> bool:
        if self._at == "token":
            raise PanicException("index out of bounds")
        return bool(self._matcher.consume_token(token_id))


@pytest.mark.parametrize("at", ["mask", "token"])
def test_a_panic_of_the_library_ends_its_answer_alone(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    make = constraints.new_matcher
    monkeypatch.setattr(constraints, "new_matcher", lambda *of: Panicking(make(*of), at))
    schema = {"type": "string", "minLength": 5, "maxLength": 9, "description": at}
    answer = run(ask(engine, "Say: x", constraint=held(schema)))
    assert answer.finished.stop.kind is StopKind.ERROR
    assert "the library failed: index out of bounds" in (answer.finished.error or "")
    assert run(ask(engine, "Say: x", max_tokens=2)).finished.usage.output_tokens > 0


def test_a_panic_of_the_compiler_is_a_refusal(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def panic(*_: Any, **__: Any) -> None:
        raise PanicException("index out of bounds")

    monkeypatch.setattr("llguidance.LLMatcher", panic)
    panic.grammar_from_lark = lambda text: text  # type: ignore[attr-defined]
    with pytest.raises(InvalidRequest, match="the compiler failed") as refusal:
        run(ask(engine, "Say: x", constraint=held({"const": "a panic of the compiler"})))
    assert refusal.value.field == "constraint.json_schema"


def test_tools_that_no_template_can_render_are_named(engine: Engine) -> None:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(900):
        schema = {"type": "array", "items": schema}
    tool = Tool("deep", "", {"type": "object", "properties": {"a": schema}})
    with pytest.raises(InvalidRequest, match="nested too deeply for") as refusal:
        run(ask(engine, "Say: x", tools=(ADD, tool)))
    assert refusal.value.field == "tools.deep.parameters"
