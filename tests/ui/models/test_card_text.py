"""A model card as the preview shows it: HTML goes, lines are joined, a long card is cut."""

import pytest

from ui.models.finder import card_text


@pytest.mark.parametrize(
    ("card", "shown"),
    [
        (
            '<p align="center">\n    <img src="https://x/y.png" alt="Logo"/>\n</p>\n\n# Name',
            "Logo\n\n# Name",
        ),
        ('<a href="https://x/y">Our <b>chat</b></a>', "[Our **chat**](https://x/y)"),
        ("<h2>Use</h2>\ntext", "## Use\n\ntext"),
        ("a<br>b", "a\n\nb"),
        ("<!-- hidden -->seen", "seen"),
        ("<script>alert(1)</script>seen", "seen"),
        ("<!-- never closed", ""),
        ("a &lt;think&gt; b", "a <think> b"),
        ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
        ("![badge](https://img/x.svg)", "badge"),
        ("[![](https://img/x.svg)](https://x)", ""),
        ("`<b>` and <b>bold</b>", "`<b>` and **bold**"),
        ("```html\n<b>x</b>\ny\n```", "```html\n<b>x</b>\ny\n```"),
        ("```\nnever <i>closed", "```\nnever <i>closed"),
        ("one\ntwo\n\nthree", "one two\n\nthree"),
        ("# Head\ntext", "# Head\ntext"),
        ("- a\n  more\n- b", "- a more\n- b"),
        ("| a |\n| - |\n| 1 |", "| a |\n| - |\n| 1 |"),
        ("Head\n====\ntext", "Head\n====\ntext"),
        ("> quote\n> more", "> quote\n> more"),
        ("a  \nb", "a  \nb"),
        ("a\r\nb", "a b"),
        ("", ""),
    ],
)
def test_html_becomes_markdown_or_is_removed(card: str, shown: str) -> None:
    assert card_text(card, 10_000) == (shown, False)


def test_a_long_card_is_cut_at_the_end_of_a_line_and_says_so() -> None:
    assert card_text("one\n\ntwo\n\nthree", 9) == ("one\n\ntwo", True)
    assert card_text("x" * 50, 10) == ("x" * 10, True)


@pytest.mark.parametrize("piece", ["`", "`a ``", "<a href=''>", "<h1>", "[", "![", "<!--", "~~~\n"])
def test_no_pattern_is_slow_on_a_hostile_card(piece: str) -> None:
    # With steps that grow exponentially, this would not end.
    text, is_cut = card_text(piece * 13_000, 12_000)
    assert is_cut
    assert len(text) <= 12_000
