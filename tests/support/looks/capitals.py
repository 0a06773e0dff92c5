"""Title Case as in Apple's apps: the capitals of menu entries, buttons, tabs and titles.

https://help.apple.com/pdf/applestyleguide/en_US/apple-style-guide.pdf, "capitalization"
"""

# Articles, conjunctions and prepositions of four letters or fewer, except as first or last word.
_SMALL = "a an and as at but by for from in into of off on onto or out over the to up via with"
SMALL = frozenset(_SMALL.split())
# Names and units that are written small everywhere.
NAMES = frozenset({"curl", "h", "min", "s", "tok/s"})
_AROUND = "\"'“”‘’()[]{}…:,;.?!&·•●⚠\u2009"


def wrong_words(label: str) -> list[str]:
    """Return the words of a label whose first letter should have another size."""
    words = [word.strip(_AROUND) for word in label.replace("&", "").split()]
    words = [word for word in words if word]
    wrong = []
    for place, word in enumerate(words):
        is_end = place in (0, len(words) - 1)
        if word in NAMES or not word[0].isalpha():
            continue
        is_small = word[0].islower()
        if is_small != (word.lower() in SMALL and not is_end):
            wrong.append(word)
    return wrong
