"""Words for how hard a model is to think, which mean the same in every dialect. Pure; any thread.

Vendors add words from time to time: one that is not known asks for thinking, as most do.
"""

_WITHOUT_THINKING = ("none", "minimal", "off", "disabled")


def asks_for_thinking(effort: str) -> bool:
    """Whether a word for the effort of reasoning switches reasoning on."""
    return effort.strip().lower() not in _WITHOUT_THINKING
