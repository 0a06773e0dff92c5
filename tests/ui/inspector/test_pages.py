"""What a probe and a capture say as pages: quoted stops are code, and nothing is markup."""

from PySide6.QtGui import QFont

from api.conformance.captures.values import (
    Capture,
    CapturedEvent,
    Finding,
    Severity,
    WireDialect,
)
from api.conformance.probe.values import Fault
from ui.inspector.capture_window import (
    FIRST_EVENTS,
    LAST_EVENTS,
    MAX_FINDINGS,
    MAX_SHOWN_CHARS,
    CapturedAnswers,
    capture_page,
)
from ui.inspector.pages import ReadingPage
from ui.inspector.probe_window import _fault
from ui.kit.colors import LIGHT
from ui.kit.theme import Theme


def test_a_finding_shows_the_stop_that_it_names_as_code() -> None:
    said = "The stop 'END' stands in the text."
    finding = Finding("x", Severity.ERROR, said, event_index=2, excerpt="abc END")
    answers = CapturedAnswers(
        Capture(dialect=WireDialect.CHAT, is_streamed=True), findings=(finding,)
    )
    page = capture_page(answers, LIGHT)
    assert "The stop “<code>END</code>” stands in the text (event 3)." in page
    assert "<code>abc·END</code>" in page
    assert "Fault</b>" in page.partition("</td>")[0]  # wrapped lines begin beside the badge


def test_events_have_the_colors_of_the_request_log() -> None:
    events = (CapturedEvent(0, "", '{"a": "b & c"}'), CapturedEvent(1, "", '{"a": 1}'))
    finding = Finding("x", Severity.ERROR, "Out of order.", event_index=1)
    capture = Capture(dialect=WireDialect.CHAT, is_streamed=True, events=events)
    page = capture_page(CapturedAnswers(capture, findings=(finding,)), LIGHT)
    assert f'<span style="color:{LIGHT.done}">&quot;b &amp; c&quot;</span>}}</code>' in page
    assert "<code>{&quot;a&quot;: 1}</code>" in page  # on the ground of a fault


def test_a_long_answer_shows_both_ends_and_says_what_is_left_out() -> None:
    events = tuple(CapturedEvent(n, "delta", f"event-{n}") for n in range(500))
    finding = Finding("x", Severity.ERROR, "Out of order.", event_index=250)
    capture = Capture(dialect=WireDialect.CHAT, text="y" * 9_000, events=events)
    view = CapturedAnswers(capture, findings=(finding,) * (MAX_FINDINGS + 3))
    page = capture_page(view, LIGHT)
    assert "3 more findings; the report has them all" in page
    assert f"{9_000 - MAX_SHOWN_CHARS:,} more characters" in page
    for shown in (0, FIRST_EVENTS - 1, 250, 500 - LAST_EVENTS, 499):
        assert f"<code>event-{shown}</code>" in page
    assert f"… {250 - FIRST_EVENTS:,} events" in page
    assert "<code>event-100</code>" not in page


async def test_code_on_a_page_has_no_ligatures(theme: Theme) -> None:
    page = ReadingPage("Page")
    page.setHtml("<code>&lt;|im_end|&gt;</code>")
    font = page.document().defaultFont()
    assert [font.featureValue(QFont.Tag(name)) for name in ("calt", "liga")] == [0, 0]
    assert all(font.isFeatureSet(QFont.Tag(name)) for name in ("calt", "liga"))


def test_evidence_shows_white_space_where_it_cannot_be_seen() -> None:
    fault = Fault("x", "It differs.", "the dialect's form", " a  b\n")
    page = _fault(fault, "")
    assert "the dialect&#x27;s form" in page
    assert "·a··b⏎" in page
