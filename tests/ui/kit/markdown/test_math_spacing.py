"""Signs and names of functions have the spaces that TeX gives them."""

from xml.etree import ElementTree

import pytest

from ui.kit.markdown.math_spacing import space_as_tex
from ui.kit.markdown.pictures import formula


def _spaced(row: str) -> str:
    """Return the signs of a row, a sign that is tight to its number in braces, `_` for a space."""
    formula = ElementTree.fromstring(f"<math>{row}</math>")
    space_as_tex(formula)
    return "".join(_shown(part) for part in formula)


def _shown(part: ElementTree.Element) -> str:
    text = "".join(part.itertext())
    is_tight = part.get("form") == "prefix" and len(text) == 1
    return "_" if part.tag == "mspace" else f"{{{text}}}" if is_tight else text


X, Y, TWO = "<mi>x</mi>", "<mi>y</mi>", "<mn>2</mn>"
SIGN, OPEN, CLOSE, BAR = (f"<mo>{sign}</mo>" for sign in "+()|")
LIM, LOG = "<mo>lim</mo>", "<msub><mi>log</mi><mn>2</mn></msub>"


@pytest.mark.parametrize(
    ("row", "spaced"),
    [
        (f"{X}<mo>=</mo>{SIGN}{TWO}", "x={+}2"),
        (f"{X}{SIGN}{TWO}", "x+2"),
        (f"{OPEN}{SIGN}{TWO}{CLOSE}{SIGN}{TWO}", "({+}2)+2"),
        (f"{BAR}{SIGN}{TWO}{BAR}{SIGN}{TWO}", "|{+}2|+2"),
        (f"<mi>sin</mi>{X}", "sin_x"),
        (f"<mo>det</mo>{X}", "det_x"),
        (f"{TWO}<mi>sin</mi>{OPEN}{X}{CLOSE}", "2_sin(x)"),
        (f"{X}{SIGN}{LOG}{Y}", "x+log2_y"),
        (f"<munder>{LIM}{X}</munder>{OPEN}{Y}{CLOSE}", "limx_(y)"),
        (f"{LIM}<mo>=</mo>{X}", "lim=x"),
    ],
)
def test_formula_has_spaces_of_tex(row: str, spaced: str) -> None:
    assert _spaced(row) == spaced


def _width_px(tex: str) -> float:
    drawn = formula(tex, 12, "#000000", is_display=True)
    assert drawn is not None
    return drawn.width_px


def test_sign_after_relation_is_drawn_tight() -> None:
    assert _width_px("x=-2") < _width_px("x=a-2") - _width_px("a")


def test_formula_with_tag_is_numbered() -> None:
    assert _width_px(r"x = 1 \tag{7}") > _width_px("x = 1")
