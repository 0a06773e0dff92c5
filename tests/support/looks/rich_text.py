"""A Markdown document with every element, and a full description of Qt's result."""

from PySide6.QtCore import QRectF
from PySide6.QtGui import (
    QTextBlock,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
    QTextFrame,
    QTextFrameFormat,
    QTextTable,
)

_BACKGROUND = int(QTextFormat.Property.BackgroundBrush.value)

LONG = "result = " + " + ".join(f"very_long_name_number_{n}" for n in range(14))
WORD = "Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichen" * 3
URL = "https://example.org/" + "a-very-long-path/" * 12

RICH = rf"""# Everything at once

A paragraph with **bold**, *italic*, ~~struck~~, `inline code`, a [link](https://example.org), bare
https://example.org/path?q=1, www.example.org and someone@example.org.
A note[^1] and another[^long].

## Tables

| Left | Center | Right | Mixed |
| :--- | :---: | ---: | --- |
| `code` | **bold** | 1.50 | [link](https://example.org) |
| a \| b | 漢字かな | 1,234.00 | $x^2$ |
|  | ~~gone~~ | -3 | مرحبا |

| Short |
| --- |
| row |

| A wide table | second column | third one | fourth one | fifth one | sixth column | seventh |
|---|---|---|---|---|---|---|
| unbreakable_identifier_one | unbreakable_identifier_two | 3 | 4 | 5 | some more words | end |

## Lists

- first
- second
  - nested
    - deeper
      1. counted
- [x] done
- [ ] not done

7. seven
8. eight
   1. nested one
   2. nested two
      - a point

      ```sh
      echo "code in a list"
      ```
9. nine
10. ten, with a table:

    | in | list |
    |---|---|
    | 1 | 2 |

- loose one

- loose two

  with a second paragraph

> A quote with `code`, and
>
> ```python
> print("code in a quote")
> ```
>
> - a list in it
>
> > nested

---

Two cards, one after another:

```python
def stops(text: str, stop: str) -> str:
	"Return the text before a stop."
	{LONG}
```

```json
{{"a": [1, 2.5, null, true]}}
```

{WORD} and {URL}

Sums like $\sum_{{i=1}}^n i$ in a line, and

$$
\int_0^\infty e^{{-x^2}}\,dx = \frac{{\sqrt\pi}}{{2}}
$$

مرحبا بالعالم، هذا نص من اليمين إلى اليسار.

[^1]: The first note.
[^long]: A longer note with `code` and https://example.org.

```
the last card
```
"""


def described(document: QTextDocument) -> list[str]:
    """Return all that determines a document's look, in a line for each frame, block and run."""
    lines: list[str] = []
    _describe_frame(document.rootFrame(), 0, lines)
    return lines


def tables(document: QTextDocument) -> list[list[list[str]]]:
    """Return the text of every cell of every table, table by table, row by row."""
    return [
        [[cell_text(table, r, c) for c in range(table.columns())] for r in range(table.rows())]
        for table in table_frames(document)
    ]


def table_frames(document: QTextDocument) -> list[QTextTable]:
    """Return the tables of a document, in their order."""
    return [f for f in document.rootFrame().childFrames() if isinstance(f, QTextTable)]


def cell_text(table: QTextTable, row: int, column: int) -> str:
    cell = table.cellAt(row, column)
    cursor = cell.firstCursorPosition()
    cursor.setPosition(cell.lastCursorPosition().position(), QTextCursor.MoveMode.KeepAnchor)
    return cursor.selectedText()


def block_of(document: QTextDocument, text: str) -> QTextBlock:
    block = document.begin()
    while block.isValid():
        if text in block.text():
            return block
        block = block.next()
    raise AssertionError(f"no block has {text!r}")


def area_of(document: QTextDocument, text: str) -> QRectF:
    """Return where the first block that has a text is."""
    return document.documentLayout().blockBoundingRect(block_of(document, text))


def _describe_frame(frame: QTextFrame, depth: int, lines: list[str]) -> None:
    indent = "  " * depth
    if isinstance(frame, QTextTable):
        form = frame.format()
        widths = [(str(one.type()), one.rawValue()) for one in form.columnWidthConstraints()]
        lines.append(
            f"{indent}table {frame.rows()}x{frame.columns()} {_frame_form(form)} {widths}"
            f" {form.cellPadding()} {form.cellSpacing()} {form.headerRowCount()}"
        )
        for row in range(frame.rows()):
            for column in range(frame.columns()):
                cell = frame.cellAt(row, column)
                lines.append(f"{indent} cell {row},{column}")
                _describe_blocks(cell.begin(), cell.end(), depth + 1, lines)
        return
    lines.append(f"{indent}frame {_frame_form(frame.frameFormat())}")
    _describe_blocks(frame.begin(), frame.end(), depth, lines)


def _describe_blocks(
    at: QTextFrame.iterator, end: QTextFrame.iterator, depth: int, lines: list[str]
) -> None:
    while at != end:
        if at.currentFrame() is not None:
            _describe_frame(at.currentFrame(), depth + 1, lines)
        elif at.currentBlock().isValid():
            _describe_block(at.currentBlock(), "  " * depth, lines)
        at += 1


def _describe_block(block: QTextBlock, indent: str, lines: list[str]) -> None:
    form = block.blockFormat()
    tabs = [(tab.position, str(tab.type)) for tab in form.tabPositions()]
    lines.append(
        f"{indent}block {form.leftMargin()} {form.rightMargin()} {form.topMargin()}"
        f" {form.bottomMargin()} {form.textIndent()} {form.alignment()} {form.lineHeight()}"
        f" {form.lineHeightType()} {form.nonBreakableLines()} {form.layoutDirection()} {tabs}"
        f" {_char_form(block.charFormat())}"
    )
    runs: list[tuple[str, str]] = []
    fragments = block.begin()
    while not fragments.atEnd():
        piece = fragments.fragment()
        form_text = _char_form(piece.charFormat())
        if runs and runs[-1][0] == form_text:
            runs[-1] = (form_text, runs[-1][1] + piece.text())
        else:
            runs.append((form_text, piece.text()))
        fragments += 1
    lines.extend(f"{indent}  {text!r} {form_text}" for form_text, text in runs)


def _frame_form(form: QTextFrameFormat) -> str:
    margins = form.leftMargin(), form.rightMargin(), form.topMargin(), form.bottomMargin()
    return f"{margins} {form.border()} {form.padding()}"


def _char_form(form: QTextCharFormat) -> str:
    said = [
        form.font().toString(),
        form.foreground().color().name(),
        form.background().color().name() if form.hasProperty(_BACKGROUND) else "-",
        form.anchorHref(),
        *form.anchorNames(),
        str(form.verticalAlignment()),
        form.toolTip(),
    ]
    if form.isImageFormat():
        image = form.toImageFormat()
        said += [image.name(), f"{image.width()}x{image.height()}"]
    return " ".join(said)
