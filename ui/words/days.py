"""Days as a person reads them. Pure; any thread."""

from datetime import datetime


def day_words(unix_s: float, now: datetime | None = None) -> str:
    """Return the day of a time; the year is included if it is not this year.

    Args:
        unix_s: Unix time, in seconds.
        now: The time at which it is read; the present by default.
    """
    moment = datetime.fromtimestamp(unix_s)
    is_this_year = moment.year == (now or datetime.now()).year
    return moment.strftime("%d %b" if is_this_year else "%d %b %Y").lstrip("0")
