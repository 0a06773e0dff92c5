"""HTML is built from elements: what is text stays text."""

from ui.kit.html import (
    BREAK,
    code,
    joined,
    paragraph,
    with_code_spans,
)


def test_text_is_escaped_and_elements_are_not() -> None:
    assert paragraph("a < b", code("<x>")) == "<p>a &lt; b<code>&lt;x&gt;</code></p>"
    assert joined("&", BREAK, "&") == "&amp;<br>&amp;"


def test_what_a_report_quotes_is_code() -> None:
    said = with_code_spans(
        f"The stop {'<a>'!r} is there; {chr(10) + 'it' + chr(39) + 's'!r} isn't."
    )
    assert said == (
        "The stop “<code>&lt;a&gt;</code>” is there; “<code>⏎it&#x27;s</code>” isn&#x27;t."
    )
