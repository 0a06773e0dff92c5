from engine import StopRules
from engine.stopping.record import StopInfo, StopKind
from engine.values.events import BudgetEnd, Finished, Speculation, Timing, Usage
from ui.records.runs import Run, RunState, markdown_report

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
    run = Run(state=RunState.REFUSED, refusal="no model is loaded")
    assert "The request was refused: no model is loaded" in markdown_report(run)


def test_guesses_are_reported_where_there_were_any() -> None:
    assert "Guessed" not in markdown_report(a_run())
    run = Run(text="one")
    counts = Speculation(passes=3, guessed=12, accepted=9, forced=4)
    run.apply(Finished(STOP, Usage(8, 2, 30), Timing(total_s=1), speculation=counts))
    report = markdown_report(run)
    assert "| Guessed tokens | 9 of 12 (75%) confirmed, in 3 passes |" in report
    assert "| Forced tokens | 4 |" in report


def test_the_end_of_thinking_by_its_budget_is_reported_with_its_token() -> None:
    assert "budget" not in markdown_report(a_run())
    run = Run(text="one")
    end = BudgetEnd(token_index=65, forced=3, budget=64)
    run.apply(Finished(STOP, Usage(8, 2, 80, 69), Timing(total_s=1), budget_end=end))
    assert (
        "80 tokens, 69 of them thinking, ended by its budget of 64 at token 66 |"
        in markdown_report(run)
    )
