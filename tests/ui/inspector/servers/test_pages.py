"""What a probe and a capture say as pages: quoted stops are code, and nothing is markup."""

from ui.inspector.capture_window import (
    FIRST_EVENTS,
    LAST_EVENTS,
    MAX_FINDINGS,
    MAX_SHOWN_CHARS,
    capture_page,
)
from ui.inspector.probe_window import probe_page
from ui.inspector.shown_run import CaptureFinding, CaptureView, ProbeFault, ProbeRow
from ui.kit.colors import LIGHT


def test_a_fault_of_a_probe_is_a_sentence_with_code_spans_above_its_evidence() -> None:
    fault = ProbeFault("The stop '</s>' was ignored.", "expected: 'a'\ngot:      'b'")
    page = probe_page([ProbeRow("One stop", "failed", "It went on.", (fault,))], LIGHT)
    assert "The stop <code>&lt;/s&gt;</code> was ignored." in page
    assert "<code>expected: &#x27;a&#x27;<br>got:      &#x27;b&#x27;</code>" in page
    assert "<b>One stop</b>" in page
    assert "Failed" in page


def test_a_finding_shows_the_stop_that_it_names_as_code() -> None:
    finding = CaptureFinding("error", "The stop 'END' stands in the text.", "abc END", 2)
    page = capture_page(CaptureView("An answer", True, findings=(finding,)), LIGHT)
    assert "The stop <code>END</code> stands in the text. (event 3)" in page
    assert "<code>abc·END</code>" in page


def test_an_answer_without_findings_is_called_correct() -> None:
    page = capture_page(CaptureView("An answer", True, text="a\nb"), LIGHT)
    assert "Nothing is wrong with it." in page
    assert "<code>a⏎<br>b</code>" in page


def test_a_long_answer_shows_both_ends_and_says_what_is_left_out() -> None:
    events = tuple(("delta", f"event-{number}") for number in range(500))
    findings = (CaptureFinding("error", "Out of order.", event_index=250),) * (MAX_FINDINGS + 3)
    view = CaptureView("x", True, text="y" * 9_000, findings=findings, events=events)
    page = capture_page(view, LIGHT)
    assert "3 more findings; the report has them all" in page
    assert f"{9_000 - MAX_SHOWN_CHARS:,} more characters" in page
    for shown in (0, FIRST_EVENTS - 1, 250, 500 - LAST_EVENTS, 499):
        assert f"<code>event-{shown}</code>" in page
    assert f"… {250 - FIRST_EVENTS:,} events" in page
    assert "<code>event-100</code>" not in page
