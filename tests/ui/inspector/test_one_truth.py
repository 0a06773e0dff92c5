"""The panel, the inspector and the report tell the same about an end, in the same figures."""

import re
from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot

from engine.stopping.record import Channel, StopInfo, StopKind
from engine.stopping.rules import StopRules, StopScope
from engine.values.events import Finished, Timing, Usage
from engine.values.request import TraceLevel
from tests.support.kept import model_library
from tests.ui.driving import ScriptedEngine, all_facts
from tests.ui.inspector.conftest import Record
from tests.ui.inspector.reading import THINK
from ui.chat.verdict_view import VerdictView
from ui.inspector.inspector_window import why
from ui.inspector.run_tabs import TimingTab
from ui.inspector.shown_run import ShownRun, Tape
from ui.kit.theme import Theme
from ui.records.run_report import markdown_report
from ui.records.runs import Run

PHASES = ("Waiting", "Reading", "Writing", "Finishing")
# Real runs of the scripted model: their pieces, their stops, and how they are asked.
REAL = {
    "eos": (["ab", "c"], (), {}),
    "a stop over tokens": (["ab", "cE", "N", "D!"], ("END",), {}),
    "a stop in the thinking": (
        ["<think>", "x", "END", "</think>", "a"],
        (),
        {"rules": StopRules.of("END", scope=StopScope.TEXT_AND_THINKING), **THINK},
    ),
    "a stop by id": (["ab", "c"], (), {"rules": StopRules(token_ids=(66,))}),
    "a limit with held text": (["a", "E", "N"], ("END",), {"max_tokens": 3}),
    "a full context": (["a"] * 50, (), {"context": 24}),
    "nothing recorded": (["ab", "cE", "ND"], ("END",), {"level": TraceLevel.OFF}),
}
READ = Timing(queued_s=0.5, prefill_s=329, total_s=329.6)
ANSWERED = Timing(0.5, 1, 1.5, 2, 3.6)


def ended(stop: StopInfo, usage: Usage, timing: Timing, **known: object) -> Run:
    error, call = known.pop("error", None), known.pop("call", "")
    run = Run(max_tokens=4321, model_id="m", **known)  # type: ignore[arg-type]
    run.apply(Finished(stop, usage, timing, error=error, unfinished_tool_call=call))  # type: ignore[arg-type]
    return run


def cancelled(tokens: int, offset: int = 0, **stop: object) -> StopInfo:
    at = {"token_index": tokens - 1} if tokens else {}
    return StopInfo(StopKind.CANCELLED, text_offset=offset, **at, **stop)  # type: ignore[arg-type]


MADE = {
    "cancelled before it began": ended(cancelled(0), Usage(900), Timing(0.5, 0, None, 0, 0.5)),
    "cancelled while it was read": ended(cancelled(0), Usage(16_000, 2000), READ),
    "cancelled with held text": ended(
        cancelled(5, 7, held="EN"), Usage(90, 0, 5), ANSWERED, text="1 2 3EN"
    ),
    "cancelled in a call": ended(
        cancelled(5, 3, channel=Channel.TOOL), Usage(90, 0, 5), ANSWERED, call='{"na'
    ),
    "failed": ended(StopInfo(StopKind.ERROR), Usage(90), READ, error="no token came"),
    "the end token in a call": ended(
        StopInfo(StopKind.EOS, 0, 2, "", Channel.TOOL, 4, 8), Usage(9, 0, 9), ANSWERED, call="{"
    ),
    "a call": ended(
        StopInfo(StopKind.TOOL_CALL, None, 2, "<|end|>", Channel.TOOL, 40, 8),
        Usage(9, 0, 9),
        ANSWERED,
    ),
    "a long answer": ended(
        StopInfo(StopKind.STOP_STRING, "END", 7, "D", text_offset=5432, token_index=4320),
        Usage(90, 0, 4321),
        ANSWERED,
        text="x" * 5432,
    ),
    "a continued answer": ended(
        StopInfo(StopKind.STOP_STRING, "END", 7, "D", text_offset=5, token_index=2, dropped="END"),
        Usage(90, 0, 3),
        ANSWERED,
        text="earlier text",
        continued_chars=7,
    ),
    "another app's": ended(cancelled(0), Usage(16_000), READ, is_own=False),
}


@pytest.fixture(params=[*REAL, *MADE])
def shown(request: pytest.FixtureRequest, record: Record) -> ShownRun:
    if request.param in MADE:
        return ShownRun(MADE[request.param])
    script, stops, asked = REAL[request.param]
    return record(list(script), *stops, **asked)


def numbers(pattern: str, text: str) -> set[str]:
    return set(re.findall(pattern, text))


def durations(lines: Iterator[str] | list[str]) -> dict[str, str]:
    """Return how long each phase took, by its name."""
    told = {}
    for line in lines:
        name, _, rest = line.replace(":", "").partition(" ")
        if name in PHASES:
            told[name] = rest.split(",")[0]
    return told


def test_the_panel_and_the_inspector_give_the_same_figures(
    shown: ShownRun, theme: Theme, qtbot: QtBot, scripted: ScriptedEngine
) -> None:
    run = shown.run
    assert run.finished is not None
    assert run.verdict is not None
    stop = run.finished.stop
    view, timing = VerdictView(model_library(scripted).models), TimingTab()
    qtbot.addWidget(view)
    qtbot.addWidget(timing)
    view.show_run(run)
    timing.show_run(shown)
    timing.refresh()
    facts = dict(line.split(": ", 1) for line in all_facts(view).splitlines())
    panel = " ".join((view.sentence.text(), view.detail.text(), all_facts(view)))
    steps = why(run, None if shown.trace is None else Tape(shown.trace))
    inspector = " ".join((run.verdict.text.sentence, *steps))

    phases = durations(all_facts(view).splitlines())
    assert phases == durations(timing.bars.accessibleName().split("; ")), "the same times"
    assert bool(phases) == (run.finished.timing.total_s > 0)
    if stop.token_index is not None and run.state == "finished":
        assert facts["Where"].startswith(f"token {stop.token_index + 1:,}")
        placed = numbers(
            r"(?:[Cc]omplete with token|came as token|its limit of) ([\d,]+)", inspector
        )
        assert placed <= {f"{stop.token_index + 1:,}"}
        assert placed or stop.kind in (StopKind.CANCELLED, StopKind.ERROR)
    places = r"(?:after [\d,]+ characters?|at the beginning) of the \w+"
    assert numbers(places, inspector) <= numbers(places, facts["Where"])
    assert numbers(places, view.detail.text()) <= numbers(places, facts["Where"])
    cut = f"{len(stop.dropped):,} cut off" if stop.dropped else ""
    assert cut in inspector
    assert bool(numbers(r"[\d,]+ cut off", inspector)) == bool(stop.dropped)
    assert (facts["Cut off"] == "nothing") == (not stop.dropped)
    held = facts.get("Held at the end", "nothing")
    assert (held == "nothing") == ("still held back" not in inspector)
    assert not numbers(r"\d{4,}", re.sub(r"(id|token) \d+", "", panel + inspector)), "1,234"
    report = markdown_report(run)
    assert f"| Where | {facts['Where']} |" in report
    assert f"| Total | {facts.get('Total')} |" in report or not phases
