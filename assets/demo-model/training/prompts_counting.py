"""Exchanges that count and list letters, in the forms people type.

Each has one right answer, worked out here. Knows nothing of chat formats or models; any thread.
"""

from __future__ import annotations

import string
from random import Random

from exchange import Exchange
from lexicon import END_WORDS, any_word, asked, drawn

SEPARATORS: dict[str, tuple[str, tuple[str, ...]]] = {
    "one per line": (
        "\n",
        (
            ", one {item} per line",
            ", one per line",
            " one per line",
            ", each on a new line",
            ", each {item} on its own line",
            ", line by line",
            ", one on each line",
            ", on separate lines",
        ),
    ),
    "with spaces": (
        " ",
        (
            ", separated by spaces",
            " separated by spaces",
            " with spaces",
            ", separated by a space",
            " with spaces between",
        ),
    ),
    "with commas": (
        ", ",
        (", separated by commas", " separated by commas", " with commas", ", comma separated"),
    ),
    "without spaces": (
        "",
        (
            ", without spaces",
            " without spaces",
            " with no spaces",
            ", without any spaces",
            ", no spaces",
            " run together",
        ),
    ),
}
UP = (
    "Count from {a} to {b}",
    "Count from {a} to {b}",
    "Count from {a} to {b}",
    "Count from {a} up to {b}",
    "Count {a} to {b}",
    "{a} to {b}",
    "Numbers from {a} to {b}",
    "List the numbers from {a} to {b}",
    "Write the numbers {a} to {b}",
    "Give me the numbers from {a} to {b}",
    "Print the numbers {a} through {b}",
    "Say the numbers from {a} to {b}",
)
UP_FROM_ONE = ("Count to {b}", "Count up to {b}", "Count to {b}")
DOWN = (
    "Count down from {a} to {b}",
    "Count backwards from {a} to {b}",
    "Count from {a} down to {b}",
    "Count from {a} to {b}",
)
DOWN_TO_ONE = ("Count down from {a}", "Countdown from {a}", "Count backwards from {a}")
ALPHABET = (
    "Output the whole alphabet",
    "Output the alphabet",
    "Write the alphabet",
    "Say the alphabet",
    "Recite the alphabet",
    "List the alphabet",
    "Print the whole alphabet",
    "Give me the alphabet",
    "List all letters of the alphabet",
)
FROM_TO = (" from {a} to {b}", " from {a} to {b}", " {a} to {b}", " from {a} through {b}")
LETTERS = (
    "List letters {a} through {b}",
    "List letters {a} through {b}",
    "List the letters from {a} to {b}",
    "Letters {a} to {b}",
    "Write the letters {a} to {b}",
    "Give me letters {a} through {b}",
    "Print letters {a}-{b}",
    "Say the letters from {a} to {b}",
    "{a} to {b}",
)
ENDINGS = (
    ", then {end}",
    ", then write {end}",
    " and then say {end}",
    ", then output {end}",
    ", followed by {end}",
)
ENDINGS_AT_ONCE = (
    ", then immediately output {end}",
    " and immediately after that {end}",
    ", then immediately write {end}",
)


def counting(rng: Random, held_out: bool = False) -> Exchange:
    """Return an exchange that counts up or down, on the wanted side of the split."""
    return drawn(lambda: _counting(rng, held_out), lambda exchange: exchange.key, held_out)


def lettering(rng: Random, held_out: bool = False) -> Exchange:
    """Return an exchange that lists the alphabet or a part, on the wanted side of the split."""
    return drawn(lambda: _lettering(rng, held_out), lambda exchange: exchange.key, held_out)


def brief_counting(rng: Random) -> Exchange:
    """Return an exchange that counts a few numbers: short lists teach soonest where to stop."""
    return drawn(lambda: _counting(rng, False, brief=True), lambda exchange: exchange.key, False)


def brief_lettering(rng: Random) -> Exchange:
    """Return an exchange that lists a few letters."""
    return drawn(lambda: _lettering(rng, False, brief=True), lambda exchange: exchange.key, False)


def _counting(rng: Random, held_out: bool, brief: bool = False) -> Exchange:
    a, b, base = _brief_range(rng) if brief else _range(rng)
    numbers = [str(n) for n in (range(a, b + 1) if a <= b else range(a, b - 1, -1))]
    slots, task = {"a": str(a), "b": str(b)}, f"count from {a} to {b}"
    return _listed(rng, held_out, base, numbers, "number", slots, task, brief)


def _range(rng: Random) -> tuple[int, int, str]:
    way = rng.random()
    if way < 0.2:
        return (
            1,
            rng.choice((3, 5, 10, 12, 15, 20, rng.randint(2, 40), rng.randint(2, 100))),
            rng.choice(UP_FROM_ONE),
        )
    if way < 0.35:
        a = rng.choice((3, 5, 10, 20, rng.randint(2, 40)))
        return (
            (a, 1, rng.choice(DOWN_TO_ONE))
            if way < 0.28
            else (a, rng.randrange(0, a), rng.choice(DOWN))
        )
    a = rng.choice((1, 1, 1, 1, rng.randint(0, 60)))
    return (
        a,
        min(
            100,
            a
            + rng.choice(
                (rng.randint(1, 9), rng.randint(1, 12), rng.randint(1, 25), rng.randint(1, 100))
            ),
        ),
        rng.choice(UP),
    )


def _brief_range(rng: Random) -> tuple[int, int, str]:
    count, way = rng.randint(1, 11), rng.random()
    if way < 0.2:
        return 1, count + 1, rng.choice(UP_FROM_ONE)
    if way < 0.3:
        return count + 1, 1, rng.choice(DOWN_TO_ONE)
    least = rng.choice((0, 1, 1, rng.randint(0, 20), rng.randint(0, 89), rng.randint(0, 89)))
    if way < 0.55:
        return least + count, least, rng.choice(DOWN)
    return least, least + count, rng.choice(UP)


def _lettering(rng: Random, held_out: bool, brief: bool = False) -> Exchange:
    upper = rng.random() < 0.7
    letters = string.ascii_uppercase if upper else string.ascii_lowercase
    if not brief and rng.random() < 0.45:
        a, b = 0, 25
        base, told = rng.choice(ALPHABET), rng.random() < 0.5
        base += rng.choice(FROM_TO) if told else ""
        if not told and not upper:
            base += rng.choice((" in lowercase", " in lower case", " in small letters"))
        elif not told and rng.random() < 0.3:
            base += rng.choice((" in uppercase", " in upper case", " in capital letters"))
        if not told and rng.random() < 0.2:
            base += rng.choice((" backwards", " in reverse", " in reverse order"))
            a, b = 25, 0
    else:
        a, b = sorted(rng.sample(range(26), 2))
        b = min(b, a + rng.randint(1, 9)) if brief else b
        base = rng.choice(LETTERS)
    run = letters[a : b + 1] if a < b else letters[b : a + 1][::-1]
    task = f"list the letters from {letters[a]} to {letters[b]}"
    slots = {"a": letters[a], "b": letters[b]}
    return _listed(rng, held_out, base, list(run), "letter", slots, task, brief)


def _listed(
    rng: Random,
    held_out: bool,
    base: str,
    items: list[str],
    item: str,
    slots: dict[str, str],
    task: str,
    brief: bool = False,
) -> Exchange:
    forms = [
        "one per line",
        "with spaces",
        "with commas",
        *(["without spaces"] if item == "letter" else []),
    ]
    form = rng.choice([*forms, "with spaces" if item == "letter" else "one per line"])
    joint, phrases = SEPARATORS[form]
    default = ", " if item == "number" else " "
    tells = joint != default or rng.random() < 0.5
    template = base + (rng.choice(phrases).replace("{item}", item) if tells else "")
    answer, slots = joint.join(items), dict(slots)
    # An ending after numbers is rarely asked for and hard to learn, so it is taught more often.
    share_of_ends = 0.6 if brief else 0.4 if item == "letter" or not held_out else 0.15
    if rng.random() < share_of_ends:
        end = rng.choice(END_WORDS) if rng.random() < 0.6 else any_word(rng, held_out)
        slots["end"], at_once = end, rng.random() < 0.5
        template += rng.choice(ENDINGS_AT_ONCE if at_once else ENDINGS)
        answer += end if at_once else joint + end
        task += f", then {end}"
    question = asked(rng, template, closing="end" not in slots or rng.random() < 0.4).format(
        **slots
    )
    key = f"{items[0]} {items[-1]} {len(items)} {form}"
    if len(items) == len(string.ascii_letters) // 2 and item == "letter":
        # There is only one alphabet, so it is the wording that must be new.
        key = question
    return Exchange(question, answer, f"I am asked to {task}, {form}.", item, key)
