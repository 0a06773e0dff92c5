"""Two runs beside each other."""

from tests.ui.inspector.conftest import Record
from ui.inspector.run_tabs import compare


def test_two_runs_are_compared_from_their_first_difference(record: Record) -> None:
    found = compare(record(["a", "b", "c", "d"], "x"), record(["a", "b", "c", "e"], "y"))
    assert (found.common, found.left, found.right) == ("abc", "d", "e")
    assert found.token_index == 3
    assert ("Stop list", "“x”", "“y”") in found.rows


def test_a_run_with_guesses_differs_from_one_without_only_in_the_guesses(record: Record) -> None:
    words = [f"w{number} " for number in range(12)]
    plain, guessed = record(words), record(words, guesses=True)
    assert guessed.run.finished is not None
    counts = guessed.run.finished.speculation
    found = compare(plain, guessed)
    assert found.sentence == "Both answers are identical."
    assert found.rows == (
        ("Draft tokens accepted", "none", f"{counts.accepted} of {counts.guessed} (100%)"),
        ("Drafted by", "", f"repetition ({counts.accepted})"),
        ("Verification passes", "0", f"{counts.passes}"),
    )
