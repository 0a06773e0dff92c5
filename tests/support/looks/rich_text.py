"""A Markdown document with every element, and its tables and blocks as Qt has them."""

from PySide6.QtCore import QRectF
from PySide6.QtGui import QTextBlock, QTextCursor, QTextDocument, QTextTable

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
