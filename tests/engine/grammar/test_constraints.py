"""Answers that a JSON schema or a required call constrains, whatever the model prefers."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from engine.engine import Engine
from engine.stopping.record import StopKind
from engine.stopping.rules import StopRules
from engine.values.request import Sampling
from tests.engine.grammar.forms import POINT, WORD, ask_all, closed, held
from tests.support.asking import ask, request, run, scripted_answer
from tests.support.scripted import TEMPLATE, Stage

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


def test_every_answer_satisfies_its_schema_in_a_batch_of_many(engine: Engine) -> None:
    samplings = [Sampling(temperature=0), Sampling(temperature=1.5, seed=1)]
    asked = [
        request("Say: hello", constraint=held(schema), sampling=sampling, max_tokens=600)
        for sampling in samplings
        for schema in SCHEMAS.values()
    ]
    answers = run(ask_all(engine, asked))
    for answer, schema in zip(answers, [*SCHEMAS.values()] * len(samplings), strict=True):
        assert answer.finished.stop.kind is StopKind.EOS, answer.text
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
    schema = SCHEMAS["references"]
    answer = run(ask(engine, "Say: x", constraint=held(schema), sampling=sampling, max_tokens=600))
    jsonschema.validate(json.loads(answer.text), schema)


def test_eos_is_impossible_before_the_answer_is_complete(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ['{"x"', ":"]})  # and then EOS for ever
    answer = scripted_answer(stage, "go", constraint=held(closed(x={"enum": [1, 2]})))
    assert json.loads(answer.text) in ({"x": 1}, {"x": 2})
    assert answer.finished.stop.kind is StopKind.EOS


STRING = closed(s={"type": "string"})
TAGS = ["<think>", "</think>", "<tool_call>", "</tool_call>"]
JSON_CALLS = TEMPLATE + "{# <tool_call> tool_call.name #}"


@pytest.mark.parametrize(
    ("schema", "script", "stops", "text", "kind"),
    [
        (POINT, ['{"x":', "5", "}", " and", " more"], {}, '{"x":5}', StopKind.EOS),
        (STRING, ['{"s":"', "one ", "ST", "OP two", '"}'], {"string": "STOP"}, '{"s":"one ',
         StopKind.STOP_STRING),
        (STRING, ['{"s":"', "one", "X", '"}'], {"id": "X"}, '{"s":"one', StopKind.STOP_TOKEN),
        (STRING, ['{"s":"', *"日本🦊", '"}'], {}, '{"s":"日本🦊"}', StopKind.EOS),
    ],
    ids=["only EOS follows the end", "a stop string", "a stop id", "characters of several tokens"],
)  # fmt: skip
def test_a_constrained_answer_is_what_the_model_says_as_far_as_it_may(
    tmp_path: Path, schema: Any, script: list[str], stops: dict[str, str], text: str, kind: StopKind
) -> None:
    stage = Stage(tmp_path, {"go": script}, pieces=[one for one in script if one.isascii()])
    ids = (stage.id(stops["id"]),) if "id" in stops else ()
    rules = StopRules.of(*([stops["string"]] if "string" in stops else []), token_ids=ids)
    answer = scripted_answer(stage, "go", rules=rules, constraint=held(schema))
    assert (answer.text, answer.finished.stop.kind) == (text, kind)


@pytest.mark.parametrize(
    ("pieces", "options"),
    [
        (["<tool", "_call>", "<think", ">"], {"plain": TAGS, "template": JSON_CALLS}),
        (["<minimax:", "tool_call>"], {"template": TEMPLATE + "{# <minimax:tool_call> #}"}),
    ],
    ids=["tags of one token", "a tag of several tokens"],
)
def test_tags_typed_out_in_a_string_are_text(
    tmp_path: Path, pieces: list[str], options: Any
) -> None:
    script = ['{"s":"', *pieces, '"}']
    stage = Stage(tmp_path, {"go": script}, pieces=script, **options)
    answer = scripted_answer(stage, "go", constraint=held(STRING))
    assert json.loads(answer.text) == {"s": "".join(pieces)}
    assert answer.tool_calls == ()


@pytest.mark.parametrize("tag", ["<tool_call>", "[TAG]", "<think>"])
def test_a_tag_itself_is_impossible_in_a_string(tmp_path: Path, tag: str) -> None:
    stage = Stage(
        tmp_path,
        {"go": ['{"s":"', tag, '"}']},
        plain=TAGS,
        special=["[TAG]"],
        template=JSON_CALLS,
    )
    constraint = held(closed(s={"type": "string", "maxLength": 8}))
    answer = scripted_answer(stage, "go", constraint=constraint, max_tokens=60)
    value = json.loads(answer.text)["s"]
    assert tag not in value
    assert value
