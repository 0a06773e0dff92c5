"""Words for the reasoning effort, which mean the same in every dialect. Pure; any thread.

Vendors add words from time to time: an unknown word asks for reasoning without a limit, as most
words do.
"""

from engine import Effort

_WITHOUT_THINKING = ("none", "minimal", "off", "disabled")
_EFFORTS = {"low": Effort.LOW, "medium": Effort.MEDIUM}


def asks_for_thinking(effort: str) -> bool:
    """Whether a word for the effort of reasoning switches reasoning on."""
    return _plain(effort) not in _WITHOUT_THINKING


def effort_of(effort: str | None) -> Effort | None:
    """Return the effort that a word asks for; None if it asks for none."""
    if effort is None or not asks_for_thinking(effort):
        return None
    return _EFFORTS.get(_plain(effort), Effort.HIGH)


def budget_of(*asked: int | None) -> int | None:
    """Return the first reasoning budget that is given; None if there is none, or it is -1."""
    given = next((one for one in asked if one is not None), None)
    return None if given is None or given < 0 else given


def _plain(effort: str) -> str:
    return effort.strip().lower()
