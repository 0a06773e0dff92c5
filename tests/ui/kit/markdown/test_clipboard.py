"""What is copied keeps the marks and the indentation of lists, as plain text and as HTML."""

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QApplication

from tests.support.random_cases import cases
from tests.ui.kit.markdown.views import shown
from ui.kit.markdown.view import MarkdownView
from ui.kit.theme import Theme

NESTED = """- one
  - inner *text*
    over two lines
  - second
    1. deep
    2. deeper
- [x] done

  more of it
"""


def copied(view: MarkdownView) -> tuple[str, str]:
    view.selectAll()
    data = view.createMimeDataFromSelection()
    return data.text(), data.html().replace("\n", "")


def test_nested_lists_keep_their_indentation(theme: Theme, qapp: QApplication) -> None:
    text, html = copied(shown(theme, qapp, NESTED))
    assert text == (
        "• one\n  • inner text\n    over two lines\n  • second\n    1. deep\n    2. deeper\n"
        "[x] done\n  more of it"
    )
    assert html == (
        "<ul><li>one<ul><li>inner <em>text</em><br>over two lines</li><li>second"
        "<ol><li>deep</li><li>deeper</li></ol></li></ul></li><li>[x] done"
        "<p>more of it</p></li></ul>"
    )


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "# Head\n\ntext `code` **b**",
            "<h1>Head</h1><p>text <code>code</code> <strong>b</strong></p>",
        ),
        ("> quoted\n>\n> - item", "<blockquote><p>quoted</p><ul><li>item</li></ul></blockquote>"),
        ("3. three\n4. four", '<ol start="3"><li>three</li><li>four</li></ol>'),
        ("```py\na < b\n\nc\n```", '<pre><code class="language-py">a &lt; bc</code></pre>'),
        ("[a](http://b.c/?d=1&e)", '<p><a href="http://b.c/?d=1&amp;e">a</a></p>'),
        ("<kbd>K</kbd> x<sub>2</sub>", "<p><kbd>K</kbd> x<sub>2</sub></p>"),
        ("$x_1$ and ~~gone~~", "<p>$x_1$ and <s>gone</s></p>"),
        ("a<br>b & c", "<p>a<br>b &amp; c</p>"),
        (
            "- a\n\n| b |\n| - |\n| c |",
            "<ul><li>a</li></ul><table><tr><th><strong>b</strong></th></tr><tr><td>c</td></tr></table>",
        ),
        (
            "> ```\n> x\n> ```",
            '<blockquote><pre><code class="language-text">x</code></pre></blockquote>',
        ),
    ],
)
def test_html_says_what_a_text_is_and_not_how_it_looks(
    theme: Theme, qapp: QApplication, text: str, wanted: str
) -> None:
    assert copied(shown(theme, qapp, text))[1] == wanted


LINES = st.lists(
    st.builds(
        lambda depth, mark, word: "  " * depth + mark + word,
        st.integers(0, 4),
        st.sampled_from(["- ", "1. ", "", "> ", "- [ ] ", "```\n", "# ", "| a |\n|-|\n| "]),
        st.sampled_from(["word", "*em*", "`x`", "$y$", "<kbd>k</kbd>", "a<br>b"]),
    ),
    max_size=14,
).map("\n".join)


@example(text="- word\n1. word", cut=(0, 300))
@settings(
    max_examples=cases(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(text=LINES, cut=st.tuples(st.integers(0, 300), st.integers(0, 300)))
def test_any_selection_is_copied_as_balanced_html_with_all_its_words(
    theme: Theme, qapp: QApplication, text: str, cut: tuple[int, int]
) -> None:
    view = shown(theme, qapp, text)
    end = view.document().characterCount() - 1
    cursor = QTextCursor(view.document())
    cursor.setPosition(min(cut[0], end))
    cursor.setPosition(min(cut[1], end), QTextCursor.MoveMode.KeepAnchor)
    view.setTextCursor(cursor)
    data = view.createMimeDataFromSelection()
    for tag in ("ul", "ol", "li", "p", "pre", "code", "blockquote", "table", "tr", "td", "em"):
        opened = data.html().count(f"<{tag}>") + data.html().count(f"<{tag} ")
        assert opened == data.html().count(f"</{tag}>"), (tag, data.html())
    assert data.html().count("word") == data.text().count("word")
