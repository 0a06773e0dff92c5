"""All figures of an end are equal in every API, panel, inspector, JSON, report and saved run."""

import asyncio
import json
import queue
import re
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from api.conformance.captures.sources import captures_of
from api.server.server import ServerThread
from api.service.config import ServerConfig
from api.service.record import RequestObserver, RequestRecord
from app.desktop.request_feed import ended_entry_of, trace_of
from app.terminal.answers import as_json
from engine.engine import Engine
from engine.files.json_fields import Fields
from engine.generation import Answer
from engine.recording.saved_run import from_json, to_json
from engine.stopping.record import StopKind
from engine.values.figures import figures
from engine.values.limits import Limits
from engine.values.request import LimitSource, TraceLevel
from engine.values.verdict import describe_limit_source, sentence
from tests.api.conftest import Reply, Site
from tests.api.questions import RAW_PATHS, question
from tests.support.kept import model_library
from tests.support.models.formats import tool_template
from tests.support.scripted import Stage
from tests.ui.driving import all_facts
from ui.chat.verdict_view import VerdictView
from ui.inspector.inspector_window import why
from ui.inspector.shown_run import ShownRun, Tape, shown_answer, shown_recording
from ui.kit.theme import Theme
from ui.records.codec import run_from, run_values
from ui.records.run_report import markdown_report

TOOL = {
    "name": "look",
    "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
}
CALL = ["<tool_call>", '{"name": "look", "arguments": {"at": "x"}}', "</tool_call>"]
COPY = ["once ", "upon ", "a ", "time, "]
SCRIPTS: dict[str, list[str | int]] = {
    "done": ["<think>", "hm", "</think>", "ab", "c"],
    "stops": ["ab", "cE", "N", "D!"],
    "holds": [*"abcdefghijklmnopq", "E", "N", "x", "y"],
    "repeats": ["Well, ", *COPY * 40],
    "calls": ["So: ", *CALL],
    "plans": ["<think>", "I do look(at", '="x").', "</think>", "ab"],
    "ponders": ["<think>", *["hm "] * 30, "</think>", "ab"],
    "goes on": [f"{n} " for n in range(60)] * 40,
}
CYCLES = {"max_pattern_size": 8, "min_count": 4}
PATHS = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/messages",
    "/v1/responses",
    "/generate",
    "/api/chat",
    "/api/generate",
)
TAKES_IDS = ("/v1/chat/completions", "/v1/completions", "/generate")
HAS_NO_CALLS = ("/v1/completions", "/generate", "/api/generate")


class Records(RequestObserver):
    def __init__(self) -> None:
        self.ended: queue.SimpleQueue[RequestRecord] = queue.SimpleQueue()

    def requested_trace(self) -> tuple[TraceLevel, int]:
        return TraceLevel.STOPS, 0

    def request_ended(self, record: RequestRecord) -> None:
        self.ended.put(record)


@dataclass(frozen=True)
class Served:
    """A server on a scripted model."""

    site: Site
    stage: Stage
    records: Records

    def shown(self) -> ShownRun:
        record = self.records.ended.get(timeout=30)
        entry, [run] = ended_entry_of(record), record.runs
        return shown_answer(entry, entry.answers[0], trace_of(run))


def body_for(path: str, text: str, stream: bool, **asked: Any) -> dict[str, Any]:
    needs_limit = path in (*RAW_PATHS, "/v1/messages")
    limit = asked.get("limit") or (4000 if needs_limit else None)
    body = question(path, text, limit, stop=asked.get("stops", []))
    body |= {"stream": stream, "fullstop": {"report": True, **asked.get("own", {})}}
    if ids := asked.get("ids"):
        (body["sampling_params"] if path == "/generate" else body)["stop_token_ids"] = ids
    if path in ("/v1/chat/completions", "/api/chat"):
        body["tools"] = [{"type": "function", "function": TOOL}]
    elif path == "/v1/responses":
        body["tools"] = [{"type": "function", **TOOL}]
    elif path == "/v1/messages":
        body["tools"] = [{"name": "look", "input_schema": TOOL["parameters"]}]
    if stream and path in ("/v1/chat/completions", "/v1/completions"):
        body["stream_options"] = {"include_usage": True}
    return body


@contextmanager
def serving(folder: Path, limits: Limits | None = None, context: int = 300) -> Iterator[Served]:
    stage = Stage(
        folder,
        SCRIPTS,
        plain=["<think>", "</think>", "<tool_call>", "</tool_call>"],
        template=tool_template("<tool_call> tool_call.name"),
        context=context,
    )
    records = Records()
    with closing(Engine(limits, loader=stage.load)) as engine:
        asyncio.run(engine.load(folder))
        thread = ServerThread(engine, ServerConfig(thinking_budget=8), (records,))
        yield Served(Site(thread.start(), engine, thread), stage, records)
        thread.stop()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("figures")) as served:
        yield served


@pytest.fixture
def view(served: Served, qtbot: QtBot, qapp: QApplication) -> VerdictView:
    Theme.current = Theme(qapp, "light")
    view = VerdictView(model_library(served.site.engine).models)
    qtbot.addWidget(view)
    return view


def number(text: str) -> int:
    return int(text.replace(",", ""))


def reports_in(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if "stop" in (report := value.get("fullstop") or {}):
            yield report
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from reports_in(item)


def report_of(reply: Reply) -> dict[str, Any]:
    lines = reply.body.decode().splitlines()
    frames = [line.removeprefix("data: ") for line in lines]
    values = [json.loads(frame) for frame in frames if frame.startswith("{")]
    return [*reports_in(values)][-1]


def figures_of_report(report: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of an API's object ``fullstop``, as ``ask --json`` names them."""
    end = report["thinking_budget_end"]
    stop = {name: value for name, value in report["stop"].items() if name != "rule_index"}
    values = {name: report[name] for name in ("limit_from", "repetition", "planned_call")}
    values |= {"budget_end": end, "budget_from": report["budget_from"], "stop": stop}
    return {name: value for name, value in values.items() if value is not None}


def figures_of_json(shown: ShownRun) -> dict[str, Any]:
    run = shown.run
    assert run.finished is not None
    printed = as_json(Answer(run.text, run.thinking, tuple(run.tool_calls), run.finished))
    del printed["stop"]["rule_index"]
    names = ("limit_from", "repetition", "planned_call", "budget_end", "budget_from", "stop")
    return {name: printed[name] for name in names if name in printed}


def panel_figures(facts: dict[str, str]) -> dict[str, Any]:
    where = re.match(
        r"token ([\d,]+)(?: of at most [\d,]+)?, (?:after ([\d,]+) characters?|at the beginning)",
        facts["Where"],
    )
    found: dict[str, Any] = {"dropped": facts["Cut off"].removeprefix("nothing")}
    if where is not None:
        found |= {"token": number(where[1]), "offset": number(where[2] or "0")}
    found["value"] = facts.get("Matched", "")
    if "Matched" not in facts or "Held at the end" in facts:
        found["held"] = facts.get("Held at the end", "")  # left out where nothing was held
    found["limit"] = facts.get("Limit set by", "")
    found["planned"] = facts.get("Call in thinking", "").removesuffix(", not made")
    cycle = re.findall(r"\d[\d,]*", facts.get("Repetition", ""))
    found["cycle"] = [*map(number, cycle)]
    prompt = re.match(r"([\d,]+) tokens?(?:, ([\d,]+) cached)?", facts.get("Prompt", ""))
    if prompt is not None:
        found["prompt"] = [number(prompt[1]), number(prompt[2] or "0")]
    answer = facts.get("Answer", "0 tokens")
    made = re.match(r"([\d,]+) tokens?(?:, ([\d,]+) of them thinking)?", answer)
    assert made is not None
    found["output"] = [number(made[1]), number(made[2] or "0")]
    ended = re.search(r"budget of ([\d,]+), set by (.*), at token ([\d,]+)$", answer)
    found["budget"] = [number(ended[1]), ended[2], number(ended[3])] if ended else []
    return found


def source(name: str | None) -> str:
    return "" if name is None else describe_limit_source(LimitSource(name))


def expected_figures(printed: dict[str, Any], usage: dict[str, Any]) -> dict[str, Any]:
    """Return the same of what ``ask --json`` prints, where a table has them."""
    stop, end = printed["stop"], printed.get("budget_end")
    kind, cycle, value = stop["kind"], printed.get("repetition"), stop["value"]
    found = {
        "dropped": stop["dropped"],
        "value": f"token {value}" if isinstance(value, int) else value or "",
        "limit": source(printed.get("limit_from")),
        "planned": printed.get("planned_call", ""),
        "cycle": (cycle and [cycle["copies"], cycle["period"], cycle["token_index"] + 1]) or [],
        "output": [usage["output_tokens"], usage["thinking_tokens"]],
        "budget": [],
    }
    if stop["token_index"] is not None:
        found |= {"token": stop["token_index"] + 1, "offset": stop["text_offset"]}
    if kind not in ("stop_string", "stop_token"):
        found["held"] = stop["held"]
    if usage["prompt_tokens"]:
        found["prompt"] = [usage["prompt_tokens"], usage["cached_tokens"]]
    if end is not None:
        found["budget"] = [end["budget"], source(printed["budget_from"]), end["token_index"] + 1]
    return found


def check_sentences(text: str, wanted: dict[str, Any], limit: int | None) -> None:
    copies, period, begin = wanted["cycle"] or (0, 0, 0)
    for pattern, value in (
        (r"(?:came as|[Cc]omplete with) token ([\d,]+)", wanted.get("token")),
        (r"([\d,]+) cut off", len(wanted["dropped"])),
        (r"“([^”]*)” was still held back", wanted.get("held")),
        (r"first copy began with token ([\d,]+)", begin),
        (r"last ([\d,]+) tokens are", copies * period),
        (r"are ([\d,]+) copies", copies),
        (r"of the same ([\d,]+)", period),
        (r"limit (?:was|of) ([\d,]+) token", limit),
        (r"came to ([\d,]+) tokens", wanted.get("prompt", [0])[0] + wanted["output"][0]),
        (r"set by (the \w+’s \w+|the request)", wanted["limit"]),
        (r"wrote a call of (\w+)", wanted["planned"]),
    ):
        for found in re.findall(pattern, text):
            assert (number(found) if isinstance(value, int) else found) == value, (pattern, text)


def facts_of(view: VerdictView, shown: ShownRun) -> dict[str, str]:
    view.show_run(shown.run)
    lines = all_facts(view).splitlines()
    facts = dict(line.split(": ", 1) for line in lines)
    facts.pop("Last token", None)
    return facts


def check_surfaces(view: VerdictView, shown: ShownRun) -> dict[str, Any]:
    """Compare panel, inspector, report, stored and saved run with JSON; return its figures."""
    run = shown.run
    assert run.finished is not None
    assert run.verdict is not None
    printed, facts = figures_of_json(shown), facts_of(view, shown)
    usage = as_json(Answer("", "", (), run.finished))["usage"]
    wanted = expected_figures(printed, usage)
    assert panel_figures(facts) == wanted
    steps = why(run, None if shown.trace is None else Tape(shown.trace))
    texts = (view.sentence.text(), view.detail.text(), sentence(run.finished), " ".join(steps))
    for text in texts:
        check_sentences(text, wanted, run.max_tokens)
    assert ("held back" in texts[-1]) == bool(wanted.get("held"))
    is_cut = re.search(r"\d cut off", texts[-1]) is not None
    assert is_cut == bool(wanted["dropped"])
    report = markdown_report(run).replace("`", "").replace("·", " ")
    assert f"| Reason | {printed['stop']['kind']} |" in report
    for name, value in facts.items():
        assert name in ("Stop list", "Model") or f"| {name} | {value} |" in report

    stored = ShownRun(run_from(Fields(json.loads(json.dumps(run_values(run)))), run.text))
    assert facts_of(view, stored) == facts
    assert figures_of_json(stored) == printed
    if shown.trace is not None and shown.trace.can_be_replayed:
        opened = shown_recording(from_json(to_json(shown.trace)), "file")
        assert figures_of_json(opened) == printed
        again = panel_figures(facts_of(view, opened))
        assert again | {"prompt": wanted["prompt"]} == wanted
        assert figures(run.finished)[-1:] == figures(opened.run.finished)[-1:]  # type: ignore[arg-type]
    return printed


CASES: dict[str, tuple[str, StopKind, dict[str, Any]]] = {
    "its own end": ("done", StopKind.EOS, {}),
    "a stop over tokens": ("stops", StopKind.STOP_STRING, {"stops": ["END"]}),
    "a stop by id": ("done", StopKind.STOP_TOKEN, {"ids": ["c"]}),
    "a limit with held text": ("holds", StopKind.MAX_TOKENS, {"stops": ["END"], "limit": 19}),
    "a limit of a cycle": ("repeats", StopKind.MAX_TOKENS, {"limit": 90}),
    "a cycle": ("repeats", StopKind.REPETITION, {"own": {"repetition_detection": CYCLES}}),
    "a call": ("calls", StopKind.TOOL_CALL, {}),
    "a call in thinking": ("plans", StopKind.EOS, {}),
    "a spent budget": ("ponders", StopKind.EOS, {}),
    "a full context": ("goes on", StopKind.CONTEXT_FULL, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_every_figure_of_an_answer_is_equal_everywhere(
    served: Served, view: VerdictView, case: str
) -> None:
    question, kind, asked = CASES[case]
    asked = {**asked, "ids": [served.stage.id(piece) for piece in asked.get("ids", [])]}
    for path in TAKES_IDS if asked["ids"] else PATHS:
        printed, streamed = (
            check_answer(served, view, path, body_for(path, question, is_stream, **asked))
            for is_stream in (False, True)
        )
        assert printed == streamed
        is_raw_call = kind is StopKind.TOOL_CALL and path in HAS_NO_CALLS
        assert printed["stop"]["kind"] == (StopKind.EOS if is_raw_call else kind)


def check_answer(
    served: Served, view: VerdictView, path: str, body: dict[str, Any]
) -> dict[str, Any]:
    reply = served.site.send("POST", path, body)
    assert reply.status == 200, reply.body
    shown = served.shown()
    printed = check_surfaces(view, shown)
    report = report_of(reply)
    assert figures_of_report(report) == printed
    assert shown.run.finished is not None
    usage, stop = shown.run.finished.usage, shown.run.finished.stop
    [capture] = captures_of(reply.body)  # as ``inspect`` reads it
    assert capture.verdict == report["verdict"] == sentence(shown.run.finished)
    assert capture.usage is not None
    assert capture.usage.output_tokens == usage.output_tokens
    is_messages = path == "/v1/messages"  # which counts cached tokens apart
    cached = capture.usage.cached_tokens or 0 if is_messages else 0
    assert (capture.usage.input_tokens or 0) + cached == usage.prompt_tokens
    if not path.startswith("/api/") and path != "/v1/messages":
        assert capture.matched == stop.value
    return printed


def test_every_figure_of_a_full_memory_is_equal_everywhere(
    view: VerdictView, tmp_path: Path
) -> None:
    with serving(tmp_path, Limits(context_bytes=512 * 8), context=100_000) as served:
        reply = served.site.send("POST", PATHS[0], body_for(PATHS[0], "goes on", False))
        printed = check_surfaces(view, served.shown())
    assert figures_of_report(report_of(reply)) == printed
    assert printed["stop"]["kind"] == StopKind.MEMORY_FULL


@pytest.mark.parametrize("kind", [StopKind.CANCELLED, StopKind.ERROR])
def test_every_figure_of_an_answer_that_was_broken_off_is_equal_everywhere(
    served: Served, view: VerdictView, monkeypatch: pytest.MonkeyPatch, kind: StopKind
) -> None:
    begun = len(served.stage.model.calls)

    def fault(call: int) -> None:
        if kind is StopKind.ERROR and call > begun + 4:
            raise RuntimeError("the model broke")
        time.sleep(0.1)  # the client leaves before the answer ends

    monkeypatch.setattr(served.stage.model, "fault", fault)
    body = body_for(PATHS[0], "goes on", True)
    with served.site.open("POST", PATHS[0], body) as response:
        response.readline()
        if kind is StopKind.ERROR:
            response.read()
    printed = check_surfaces(view, served.shown())
    assert printed["stop"]["kind"] == kind
