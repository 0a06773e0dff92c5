from engine.stopping.record import StopInfo, StopKind
from engine.stopping.rules import StopRules
from engine.values.events import Finished, Timing, Usage
from ui.records.run_report import markdown_report
from ui.records.runs import Run

STOP = StopInfo(StopKind.STOP_STRING, "a|b`\n", 9, "b", text_offset=4, token_index=2, dropped="a|b")


def a_run() -> Run:
    run = Run(
        rules=StopRules.of("a|b`\n", "END"), max_tokens=12, model_id="demo-model", text="one ```x"
    )
    run.apply(Finished(STOP, Usage(8, 2, 3), Timing(first_token_s=0.5, total_s=1)))
    return run


def test_the_report_names_reason_match_position_and_tokens() -> None:
    report = markdown_report(a_run(), "Why?")
    for part in (
        "`stop_string`",
        "token 3 of at most 12",
        "8 tokens, 2 cached",
        "demo-model",
        "Why?",
    ):
        assert part in report


def test_a_cell_cannot_break_the_table() -> None:
    table = [line for line in markdown_report(a_run()).split("\n") if line.startswith("|")]
    assert all(line.replace("\\|", "").count("|") == 3 for line in table)


def test_an_answer_with_a_fence_stays_inside_its_fence() -> None:
    assert "````text\none ```x\n````" in markdown_report(a_run())


def test_a_refused_request_is_reported_with_its_cause() -> None:
    run = Run(state="refused", refusal="no model is loaded")
    assert "The request was refused: no model is loaded" in markdown_report(run)
