"""Answers constrained by a regular expression, a list of texts, or a grammar."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.engine import Engine
from engine.errors import InvalidRequest
from engine.grammar.compilation import new_matcher, new_tokenizer
from engine.grammar.grammars import answer_grammar
from engine.grammar.lark_text import quoted
from engine.grammar.text_forms import (
    MAX_CHOICE_CHARACTERS,
    MAX_REGEX_CHARACTERS,
)
from engine.output.families import PLAIN
from engine.stopping.record import StopKind
from engine.values.request import GenerationRequest, OutputConstraint, Sampling, TextForm
from tests.engine.grammar.forms import ask_all
from tests.support.asking import ask, request, run

BYTES = new_tokenizer([*(bytes([i]) for i in range(256)), b"<eos>"], [256], [256])
GBNF = 'root ::= "a" item* [0-9]{2,3}\nitem ::= ("x" | "y") ws\nws ::= [ \\t]*\n'
LARK = 'start: "sum " NUMBER ("+" NUMBER)*\nNUMBER: /[0-9]{1,3}/\n'


def held(**form: object) -> OutputConstraint:
    return OutputConstraint(text_form=TextForm(**form))  # type: ignore[arg-type]


def accepts(form: TextForm, text: str) -> bool:
    """Whether a whole text is one of the form's, by the compiled grammar alone."""
    asked = GenerationRequest(constraint=OutputConstraint(text_form=form))
    matcher = new_matcher(BYTES, answer_grammar(asked, PLAIN, quoted)[0])
    data = list(text.encode())
    return int(matcher.try_consume_tokens(data)) == len(data) and bool(matcher.is_accepting())


FORMS = [
    (held(regex="[A-Z]{2}-[0-9]{3}"), "[A-Z]{2}-[0-9]{3}"),
    (held(regex="^(yes|no)/maybe$"), "(yes|no)/maybe"),
    (held(choices=("grün", 'a "quoted" one', "line\nbreak")), '(grün|a "quoted" one|line\nbreak)'),
    (held(grammar=LARK), r"sum [0-9]{1,3}(\+[0-9]{1,3})*"),
    (held(grammar=GBNF), r"a([xy][ \t]*)*[0-9]{2,3}"),
]


def test_every_answer_has_its_form_in_a_batch_of_many(engine: Engine) -> None:
    asked = [
        request(
            "Say: hello",
            constraint=constraint,
            sampling=Sampling(temperature=1.0, seed=seed),
            max_tokens=100,
        )
        for constraint, _ in FORMS
        for seed in range(3)
    ]
    patterns = [pattern for _, pattern in FORMS for _ in range(3)]
    whole = set()
    for answer, pattern in zip(run(ask_all(engine, asked)), patterns, strict=True):
        if answer.finished.stop.kind is StopKind.MAX_TOKENS:
            continue  # what repeats without end may
        assert answer.finished.stop.kind is StopKind.EOS
        assert re.fullmatch(pattern, answer.text), answer.text
        whole.add(pattern)
    assert len(whole) >= 4


@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=6, unique=True), st.data())
def test_choices_are_taken_literally(choices: list[str], data: st.DataObject) -> None:
    form = TextForm(choices=tuple(choices))
    text = data.draw(st.sampled_from(choices))
    assert accepts(form, text)
    assert not accepts(form, f"{text}{text}x")


@pytest.mark.parametrize(
    ("form", "field", "words"),
    [
        (TextForm(regex="(?=a)b"), "constraint.regex", "look-ahead"),
        (TextForm(regex="a" * (MAX_REGEX_CHARACTERS + 1)), "constraint.regex", "at most"),
        (TextForm(choices=("a", "")), "constraint.choices", "must not be empty"),
        (TextForm(choices=("a" * (MAX_CHOICE_CHARACTERS + 1),)), "constraint.choices", "at most"),
        (TextForm(grammar="what is this?"), "constraint.grammar", "neither Lark"),
        (TextForm(grammar="start: missing"), "constraint.grammar", "missing"),
        (TextForm(grammar="start: <[5]>"), "constraint.grammar", "special tokens"),
        (TextForm(grammar='start: %json {"type": "x"}'), "constraint.grammar", "%json"),
        (TextForm(grammar='%llguidance {"a": 1}\nstart: "a"'), "constraint.grammar", "options"),
        (TextForm(grammar="root ::= " + "(" * 20_000), "constraint.grammar", ""),
    ],
)
def test_a_text_that_is_not_a_form_is_refused_with_its_field(
    engine: Engine, form: TextForm, field: str, words: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        run(ask(engine, "hi", constraint=OutputConstraint(text_form=form)))
    assert refused.value.field == field
    assert words in str(refused.value)
    assert run(ask(engine, "hi", max_tokens=2)).finished.error is None


def test_a_stop_sequence_ends_an_answer_within_its_form(engine: Engine) -> None:
    constraint = held(regex="[a-c]{4}END[a-c]{4}")
    answer = run(ask(engine, "hi", "END", constraint=constraint, max_tokens=60))
    assert answer.finished.stop.kind is StopKind.STOP_STRING
    assert re.fullmatch("[a-c]{4}", answer.text)
