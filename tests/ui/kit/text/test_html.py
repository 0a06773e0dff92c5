"""HTML is built from elements: what is text stays text."""

from ui.kit.html import (
    BREAK,
    Html,
    badge,
    cell,
    code,
    colored,
    element,
    joined,
    lines,
    paragraph,
    strong,
    table,
    visible_lines,
    with_code_spans,
)


def test_text_is_escaped_and_elements_are_not() -> None:
    assert paragraph("a < b", code("<x>")) == "<p>a &lt; b<code>&lt;x&gt;</code></p>"
    assert joined("&", BREAK, "&") == "&amp;<br>&amp;"


def test_joined_html_is_not_escaped_again() -> None:
    assert strong(joined("<", Html("&nbsp;"))) == "<b>&lt;&nbsp;</b>"


def test_attributes_are_quoted() -> None:
    assert element("td", "x", title='"', colspan=2) == '<td title="&quot;" colspan="2">x</td>'
    assert cell("x", style="color:red") == '<td style="color:red">x</td>'


def test_color_and_ground_are_css() -> None:
    assert colored("<", "#111") == '<span style="color:#111">&lt;</span>'
    assert badge("Fault", "#111", "#222") == (
        '<span style="background:#222;color:#111">&nbsp;Fault&nbsp;</span>'
    )


def test_a_table_holds_rows_of_cells() -> None:
    assert table([[cell("a"), cell("b")], [cell("c")]], cellspacing=0) == (
        '<table cellspacing="0"><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>'
    )


def test_line_breaks_are_kept_as_they_are_or_made_visible() -> None:
    assert lines("a\n<b>") == "a<br>&lt;b&gt;"
    assert visible_lines("a b\nc\x00") == "a b⏎<br>c␀"


def test_what_a_report_quotes_is_code() -> None:
    said = with_code_spans(
        f"The stop {'<a>'!r} is there; {chr(10) + 'it' + chr(39) + 's'!r} isn't."
    )
    assert said == (
        "The stop <code>&lt;a&gt;</code> is there; <code>\\nit&#x27;s</code> isn&#x27;t."
    )


def test_a_quotation_with_quotes_of_its_kind_inside_ends_where_it_ends() -> None:
    both = "'\""
    assert with_code_spans(f"got {both!r}.") == "got <code>\\&#x27;&quot;</code>."
