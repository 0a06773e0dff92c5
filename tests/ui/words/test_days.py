"""Days are not mistaken for those of another year."""

from datetime import datetime

from ui.words import day_words


def test_the_year_is_named_where_it_is_another_one() -> None:
    moment = datetime(2023, 11, 4, 12).timestamp()
    assert day_words(moment, datetime(2023, 11, 22)) == "4 Nov"
    assert day_words(moment, datetime(2024, 1, 1)) == "4 Nov 2023"
    assert day_words(0) == datetime.fromtimestamp(0).strftime("%d %b %Y").lstrip("0")
