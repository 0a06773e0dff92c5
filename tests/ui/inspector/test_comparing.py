"""Two runs beside each other."""

from tests.ui.inspector.conftest import Record
from ui.inspector.run_tabs import compare


def test_two_runs_are_compared_from_their_first_difference(record: Record) -> None:
    found = compare(record(["a", "b", "c", "d"], "x"), record(["a", "b", "c", "e"], "y"))
    assert (found.common, found.left, found.right) == ("abc", "d", "e")
    assert found.token_index == 3
    assert ("Stop list", "“x”", "“y”") in found.rows


def test_compared_texts_are_whole_and_named_by_whole_words(record: Record) -> None:
    left, right = ["one ", "two three four five six " * 20], ["one ", "other"]
    found = compare(record(left, "zz"), record(right, "zz"))
    assert found.left.endswith("five six ")
    assert "“two·three·four·five·six…” in this run" in found.sentence
