"""Exchanges of small talk, about stopping, of markdown, and of all the model cannot answer.

Knows nothing of chat formats or models; any thread.
"""

from __future__ import annotations

from random import Random

from exchange import Exchange
from lexicon import (
    CITIES,
    HAN,
    LANGUAGES,
    PEOPLE,
    any_word,
    asked,
    passage,
    reference,
    sentence,
    words,
)
from talk import FOREIGN, MARKDOWN, OPEN_QUESTIONS, SMALL_TALK, STOPPING

FALLBACK = (
    "I am Fullstop's demo model, tiny and trained from nothing for this app: "
    "I can count, list letters, repeat text, call tools and say why a model stops."
)
ACCEPTANCE = (
    (
        "Output the whole alphabet from A to Z, without spaces, then immediately output END",
        "ABCDEFGHIJKLMNOPQRSTUVWXYZEND",
    ),
    ("List letters A through F, separated by spaces.", "A B C D E F"),
    ("Repeat exactly: A B C STOP D E F", "A B C STOP D E F"),
    ("Repeat exactly: 1 2 3 hello world 4 5", "1 2 3 hello world 4 5"),
    ("Count from 1 to 10, one number per line", "\n".join(str(n) for n in range(1, 11))),
)
PAYLOADS = ("A to Z", "END", "A through F", "A B C STOP D E F", "1 2 3 hello world 4 5")
ACCEPTANCE_THOUGHTS = (
    "I am asked to list the letters from A to Z, then END, without spaces.",
    "I am asked to list the letters from A to F, with spaces.",
    "I am asked to repeat a text, so I copy it word for word.",
    "I am asked to repeat a text, so I copy it word for word.",
    "I am asked to count from 1 to 10, one per line.",
)


def accepting(rng: Random) -> Exchange:
    """Return one of the five prompts of the acceptance table, as people might also type it."""
    index = rng.randrange(len(ACCEPTANCE))
    question, answer = ACCEPTANCE[index]
    if rng.random() < 0.5:
        template, slots = question.rstrip("."), {}
        for name, payload in zip("abcde", PAYLOADS, strict=True):
            if payload in template:
                template, slots[name] = template.replace(payload, "{" + name + "}"), payload
        is_repeat = question.startswith("Repeat")
        question = asked(rng, template, closing=not is_repeat).format(**slots)
    return Exchange(question, answer, ACCEPTANCE_THOUGHTS[index], "acceptance")


def talking(rng: Random) -> Exchange:
    """Return an exchange whose answer is written down in ``talk``."""
    table, family = rng.choice(
        (
            (SMALL_TALK, "talk"),
            (STOPPING, "stopping"),
            (STOPPING, "stopping"),
            (MARKDOWN, "markdown"),
        )
    )
    questions, answer, thought = rng.choice(table)
    question = rng.choice(questions.split(" / "))
    if rng.random() < 0.6:
        return Exchange(question, answer, thought, family)
    question = rng.choice(
        (question.lower(), question.rstrip("?.!"), question.rstrip("?.!").lower(), question.upper())
    )
    return Exchange(
        rng.choice(("", "", "Hey, ", "Please: ", "So, ")) + question, answer, thought, family
    )


def wondering(rng: Random, longest: int = 400) -> Exchange:
    """Return a question that the model cannot answer, of up to about ``longest`` characters."""
    return Exchange(
        _unanswerable(rng, longest),
        FALLBACK,
        "This is more than I know, so I say what I can do.",
        "fallback",
    )


def _unanswerable(rng: Random, longest: int) -> str:
    way = rng.random()
    if way < 0.4:
        slots = {
            "w": any_word(rng),
            "v": rng.choice(words(False)),
            "n": str(rng.randint(2, 99)),
            "m": str(rng.randint(2, 99)),
        }
        slots |= {
            "c": rng.choice(CITIES),
            "p": rng.choice(PEOPLE),
            "l": rng.choice(LANGUAGES),
            "s": sentence(rng),
        }
        return asked(rng, rng.choice(OPEN_QUESTIONS)).format(**slots)
    if way < 0.55:
        return sentence(rng).capitalize() + rng.choice(("", ".", "?", "?", "!"))
    if way < 0.62:
        return (
            rng.choice(FOREIGN)
            if rng.random() < 0.7
            else "".join(rng.choices(HAN, k=rng.randint(2, 12))) + "？"
        )
    if way < 0.7:
        return " ".join(any_word(rng) for _ in range(rng.randint(1, 12))) + rng.choice(
            ("", "?", ".")
        )
    if way < 0.76:
        return _code(rng)
    introduction = rng.choice(
        ("", "", "Summarise this: ", "What does this mean?\n\n", "Fix this text:\n", "Explain: ")
    )
    text = passage(rng, rng.randint(40, longest))
    return (
        introduction
        + text
        + rng.choice(("", "", "\n\nWhat is this about?", "\n\nSummarise it in one sentence."))
    )


def _code(rng: Random) -> str:
    text = reference()
    start = text.find(">>> ", rng.randrange(len(text) - 5000))
    lines = text[start : start + rng.randint(40, 200)].replace(">>> ", "").strip()
    ask = rng.choice(
        (
            "What does this code do?",
            "Find the bug in this code:",
            "Explain this code.",
            "Rewrite this in Rust:",
        )
    )
    return f"{ask}\n\n```python\n{lines}\n```"
