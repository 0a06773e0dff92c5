"""The API tab shows real bytes, bodies that make the same request, and programs that run."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from api.conformance.captures.diagnosis import diagnose
from api.conformance.captures.recognition import parse
from api.conformance.captures.values import Severity
from api.dialects.ollama.dialect import OLLAMA
from api.dialects.openai.chat import CHAT
from api.dialects.sglang.dialect import GENERATE
from api.dialects.shared.dialect import Dialect
from api.dialects.shared.parameters import ReadContext
from api.dialects.shared.parsing import parse_body
from api.server.routes import DIALECTS as EVERY_DIALECT
from api.server.server import ServerThread
from api.service.config import ServerConfig
from app.inspector.request_code import python_of
from app.inspector.shown_apis import body_of, wire_views
from engine.engine import Engine
from engine.stopping.rules import Stop, StopRules, StopScope
from engine.values.request import (
    PICTURE_MARK,
    Effort,
    GenerationRequest,
    Message,
    OutputConstraint,
    Picture,
    Sampling,
    TextForm,
    Tool,
    ToolCall,
    ToolChoice,
    TraceLevel,
)
from tests.support.asking import other_stop_options, run
from ui.chat.session.traces import Traces
from ui.inspector.shown_run import ShownRun, WireView
from ui.records.runs import Run

DIALECTS = [dialect for dialect in EVERY_DIALECT if dialect.answers]
TITLES = [dialect.title for dialect in DIALECTS]
RAW = GenerationRequest(prompt="1\n2\n", stops=StopRules.of("6"), max_tokens=20)
# Requests of the other dialects contain a conversation.
WITH_PROMPTS = [one for one in DIALECTS if one.request_body(RAW, "model", "") is not None]
WITH_TURNS = [one for one in DIALECTS if one not in WITH_PROMPTS]
COUNT = "Count from 1 to 10, one number per line"
WEATHER = Tool("get_weather", "Get the weather", {"type": "object", "properties": {}})
CALL = ToolCall("toolu_1", "get_weather", '{"city": "Paris"}')
ASKED = GenerationRequest(
    messages=(
        Message("system", "Be brief."),
        Message("user", "Weather?"),
        Message("assistant", "Let me look.", tool_calls=(CALL,)),
        Message("tool", "Sunny", tool_call_id="toolu_1", name="get_weather"),
        Message("user", "And now?"),
    ),
    sampling=Sampling(temperature=0.5, top_p=0.9),
    stops=StopRules((Stop("END", StopScope.TEXT_AND_THINKING), Stop("\n\n")), scope=StopScope.ALL),
    max_tokens=50,
    tools=(WEATHER,),
    thinking=False,
)


async def recorded(engine: Engine, asked: GenerationRequest) -> ShownRun:
    traces = Traces()
    traces.level = TraceLevel.STOPS
    generation = await engine.generate(traces.traced(asked))
    shown = Run(rules=asked.stops, max_tokens=asked.max_tokens, model_id="demo-model")
    trace = traces.begin(shown.id, generation)
    assert trace is not None
    async for event in generation.events():
        shown.apply(event)
        trace.take(event)
    return ShownRun(shown, trace, COUNT)


@pytest.fixture(scope="module")
def counted(engine: Engine) -> ShownRun:
    asked = GenerationRequest(
        (Message("user", COUNT),),
        sampling=Sampling(temperature=0.0),
        stops=StopRules.of("6"),
        max_tokens=64,
        thinking=False,
    )
    return run(recorded(engine, asked))  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def address(engine: Engine) -> Iterator[str]:
    server = ServerThread(engine, ServerConfig())
    yield server.start().url
    server.stop()


@pytest.fixture(scope="module")
def views(engine: Engine, counted: ShownRun, address: str) -> dict[str, WireView]:
    found = run(wire_views(engine, counted, address))
    return {view.name: view for view in found}


def comparable(request: GenerationRequest) -> GenerationRequest:
    """Leave out values for which APIs have no field: names of tool results, ids of calls."""
    messages = tuple(
        dataclasses.replace(
            message,
            name=None,
            tool_call_id=None,
            tool_calls=tuple(
                ToolCall("", c.name, json.dumps(json.loads(c.arguments)))
                for c in message.tool_calls
            ),
        )
        for message in request.messages
    )
    return dataclasses.replace(request, messages=messages, top_logprobs=0)


def asked_again(dialect: Dialect, request: GenerationRequest) -> GenerationRequest:
    body, route = body_of(dialect, request, "m", ""), dialect.answers[0]
    [asked] = route.read(parse_body(json.dumps(body).encode(), route.request)[0], ReadContext())
    return asked


@pytest.mark.parametrize("dialect", WITH_TURNS, ids=lambda dialect: dialect.name)
def test_a_body_makes_the_same_request_as_the_run(dialect: Dialect) -> None:
    assert comparable(asked_again(dialect, ASKED)) == comparable(ASKED)


@pytest.mark.parametrize("dialect", WITH_TURNS, ids=lambda dialect: dialect.name)
def test_a_body_contains_the_pictures_of_questions_and_results(dialect: Dialect) -> None:
    shown = Picture(b"\x89PNG\r\n\x1a\n1"), Picture(b"\xff\xd8\xff2")
    asked, said, result = ASKED.messages[1], ASKED.messages[2], ASKED.messages[3]
    asked = dataclasses.replace(asked, content=PICTURE_MARK * 2 + "Weather?", pictures=shown)
    result = dataclasses.replace(result, content=f"Sunny{PICTURE_MARK}", pictures=shown[:1])
    request = dataclasses.replace(ASKED, messages=(asked, said, result))
    again = [message for message in asked_again(dialect, request).messages if message.pictures]
    data = [[picture.data for picture in message.pictures] for message in again]
    assert data == [[picture.data for picture in shown], [shown[0].data]]
    assert [message.content.replace(PICTURE_MARK, "") for message in again] == ["Weather?", "Sunny"]


def test_generate_has_the_pictures_of_a_prompt_and_completions_says_that_it_takes_none(
    engine: Engine, counted: ShownRun, address: str
) -> None:
    shown = Picture(b"\x89PNG\r\n\x1a\n1"), Picture(b"\xff\xd8\xff2")
    turn = Message("user", f"{PICTURE_MARK * 2}Weather?", pictures=shown)
    request = GenerationRequest((turn,), max_tokens=5)
    body = body_of(GENERATE, request, "m", "<pad><pad>Weather?")
    route = GENERATE.answers[0]
    [again] = route.read(parse_body(json.dumps(body).encode(), route.request)[0], ReadContext())
    assert (again.prompt, [one.data for one in again.pictures]) == (
        "<pad><pad>Weather?",
        [one.data for one in shown],
    )
    pictured = dataclasses.replace(counted, sent_request=request)
    views = {view.name: view for view in run(wire_views(engine, pictured, address))}
    assert views["OpenAI Chat Completions"].problem == ""
    assert views["OpenAI Completions"].problem == "This API takes no pictures."
    assert "model that sees" in views["SGLang /generate"].problem


RICH = GenerationRequest(
    messages=(Message("user", "Weather?"),),
    sampling=Sampling(
        temperature=0.5,
        presence_penalty=0.5,
        frequency_penalty=-0.25,
        logit_bias=((5, 1.0), (7, -100.0)),
        seed=7,
    ),
    stops=StopRules.of("END", token_ids=(9,), include_stop=True, ignore_eos=True, min_tokens=3),
    max_tokens=50,
    tools=(WEATHER,),
    tool_choice=ToolChoice("required", "get_weather"),
)


def test_a_chat_body_contains_all_that_another_app_can_request() -> None:
    assert comparable(asked_again(CHAT, RICH)) == comparable(RICH)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize(
    "fields",
    [
        {"constraint": OutputConstraint({"type": "object"})},
        {"constraint": OutputConstraint(text_form=TextForm(regex="a+"))},
        {"tools": (WEATHER,), "tool_choice": ToolChoice("required", "get_weather")},
    ],
    ids=["schema", "regex", "call"],
)
def test_constraint_is_in_the_body_or_there_is_none(
    dialect: Dialect, fields: dict[str, Any]
) -> None:
    prompt = {"messages": (Message("user", "Hi"),)} if dialect in WITH_TURNS else {"prompt": (5,)}
    asked = GenerationRequest(**{**prompt, **fields})
    if dialect in WITH_PROMPTS and asked.tools:
        return  # a prompt describes its tools itself
    if body_of(dialect, asked, "m", "") is not None:
        again = asked_again(dialect, asked)
        assert (again.constraint, again.tool_choice) == (asked.constraint, asked.tool_choice)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize(
    "fields",
    [
        {"max_tokens": None},
        {"sampling": Sampling(min_p=0.1, repetition_penalty=1.2, presence_penalty=0.5, seed=7)},
        {"sampling": Sampling(logit_bias=((5, 1.0),))},
        {"sampling": Sampling(xtc_probability=0.5)},
        {"stops": StopRules.of("END", token_ids=(9,))},
        {"thinking": True, "thinking_budget": 100},
        {"thinking": True, "effort": Effort.HIGH},
        {"thinking": True, "template_options": {"add_dates": True}},
    ],
    ids=["no limit", "sampling", "bias", "xtc", "token id", "budget", "effort", "template"],
)
def test_each_setting_is_in_the_body_or_there_is_none(
    dialect: Dialect, fields: dict[str, Any]
) -> None:
    prompt = {"messages": (Message("user", "Hi"),)} if dialect in WITH_TURNS else {"prompt": (5,)}
    asked = GenerationRequest(**{**prompt, "max_tokens": 50, "thinking": False, **fields})
    if dialect in WITH_PROMPTS and asked.thinking:
        return  # a prompt contains the effect itself
    if body_of(dialect, asked, "m", "") is not None:
        again = asked_again(dialect, asked)
        for name in ("max_tokens", "sampling", "stops", "thinking_budget", "effort",
                     "template_options"):  # fmt: skip
            assert getattr(again, name) == getattr(asked, name), name


def test_a_program_contains_an_effort_as_text() -> None:
    asked = GenerationRequest((Message("user", "Hi"),), thinking=True, effort=Effort.HIGH)
    program = python_of("/api/chat", "http://h", body_of(OLLAMA, asked, "m", "") or {})
    compile(program, "program", "exec")
    assert "'think': 'high'" in program


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_a_body_of_every_dialect_contains_every_option_of_stops(dialect: Dialect) -> None:
    options = other_stop_options()
    stops = StopRules.of("END").with_options(options)
    asked = GenerationRequest((Message("user", "Hi"),), stops=stops, max_tokens=9)
    if dialect not in WITH_TURNS:
        asked = GenerationRequest(prompt=(5,), stops=stops, max_tokens=9)
    assert asked_again(dialect, asked).stops == stops


@pytest.mark.parametrize("name", TITLES)
def test_the_bytes_are_a_correct_answer_of_that_api(views: dict[str, WireView], name: str) -> None:
    view = views[name]
    for sent in (view.whole, view.stream):
        assert sent.startswith("HTTP/1.1 200 OK\n")
        capture = parse(sent)
        assert capture.text == "1\n2\n3\n4\n5\n"
        assert [f for f in diagnose(capture, ("6",)) if f.severity is Severity.ERROR] == []
    assert len(parse(view.stream).events) > 10, "token by token, as it was sent sent"


def test_a_curl_command_works_when_pasted(views: dict[str, WireView]) -> None:
    done = subprocess.run(
        ["bash", "-c", views[TITLES[0]].curl],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    if done.returncode == 127:
        pytest.skip("there is no curl here")
    assert done.returncode == 0, done.stderr
    assert parse(done.stdout).text == "1\n2\n3\n4\n5\n"


# One process for all: it imports each vendor's client once.
PASTED = """
import json, sys
for name, program in json.load(sys.stdin).items():
    print("##", name)
    exec(program, {"__name__": "__main__"})
"""


def test_each_program_works_when_pasted(views: dict[str, WireView]) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PASTED],
        input=json.dumps({name: views[name].python for name in TITLES}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = [part.partition("\n") for part in done.stdout.split("## ")[1:]]
    assert [name for name, _, _ in printed] == TITLES
    for name, _, text in printed:
        assert "1\n2\n3\n4\n5\n" in text or "1\\n2\\n3\\n4\\n5\\n" in text, name


def test_a_run_without_recorded_tokens_is_sent_in_one_piece(
    engine: Engine, counted: ShownRun
) -> None:
    forgotten = ShownRun(counted.run, None, COUNT)
    found = run(wire_views(engine, forgotten, "http://127.0.0.1:1"))
    for view in found:
        assert parse(view.stream).text == "1\n2\n3\n4\n5\n"
