"""Exchanges that repeat a text exactly: words of all sorts, digits, punctuation, lines, pictures.

Knows nothing of chat formats or models; any thread.
"""

from __future__ import annotations

from random import Random

from exchange import Exchange
from lexicon import (
    END_WORDS,
    HAN,
    PICTURES,
    any_word,
    asked,
    invented_word,
    is_held_out,
    letter_string,
    passage,
    sentence,
    split,
    words,
)

ASKING = (
    *("Repeat exactly: ",) * 8,
    "Repeat: ",
    "Repeat this: ",
    "Repeat after me: ",
    "Repeat the following: ",
    "Repeat the following exactly: ",
    "Repeat this exactly: ",
    "Say: ",
    "Say: ",
    "Say ",
    "Say exactly: ",
    "Echo: ",
    "Echo ",
    "Echo this: ",
    "Copy: ",
    "Copy this: ",
    "Copy this text: ",
    "Write: ",
    "Write exactly: ",
    "Print: ",
    "Output: ",
    "Output exactly: ",
    "Reply with: ",
    "Answer with: ",
    "Repeat exactly:\n",
    "Repeat this text:\n",
    "Repeat the text below.\n",
)
KINDS = split("word word letter letter digit number mark end picture han")
THOUGHT = "I am asked to repeat a text, so I copy it word for word."
MARKS = split(
    '### --- *** </s> User: [END] ... ?? !! $5 50% a=b x+y (ok) <br> {} @me #tag & 3.14 "hi" it\'s'
)


def repeating(rng: Random, held_out: bool = False, most_words: int = 14) -> Exchange:
    """Return an exchange that repeats up to ``most_words`` words.

    A held-out one has only words on that side of the split.
    """
    text = _only_words(rng, True, most_words) if held_out else _any_text(rng, most_words)
    template = rng.choice(ASKING)
    if template.endswith(" ") and rng.random() < 0.06:
        return _exchange(asked(rng, template, closing=False) + f'"{text}"', text)
    return _exchange(asked(rng, template, closing=False) + text, text)


def _exchange(question: str, text: str) -> Exchange:
    return Exchange(question, text, THOUGHT, "repeat")


def _only_words(rng: Random, held_out: bool, most_words: int) -> str:
    sort = rng.choice((any_word, any_word, letter_string, letter_string, invented_word))
    if rng.random() < 0.2:
        return " ".join(rng.choice(words(held_out)) for _ in range(rng.randint(1, most_words)))
    return " ".join(sort(rng, held_out) for _ in range(rng.randint(1, most_words)))


def _any_text(rng: Random, most_words: int) -> str:
    sort = rng.random()
    if sort < 0.5:
        return _only_words(rng, False, most_words)
    if sort < 0.72:
        return _mixed(rng, most_words)
    if sort < 0.78:
        few = [any_word(rng) for _ in range(rng.randint(1, 3))]
        return " ".join(rng.choice(few) for _ in range(rng.randint(2, most_words)))
    if sort < 0.86:
        return sentence(rng)
    if sort < 0.9:
        return passage(rng, rng.randint(10, 120))
    return "\n".join(_mixed(rng, 4) for _ in range(rng.randint(2, 4)))


def _mixed(rng: Random, most_words: int) -> str:
    kinds = rng.choices(KINDS, k=2)
    return " ".join(_one(rng, rng.choice(kinds)) for _ in range(rng.randint(1, most_words)))


def _one(rng: Random, kind: str) -> str:
    if kind == "letter":
        return rng.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
    if kind == "digit":
        return str(rng.randint(0, 9))
    if kind == "number":
        return str(rng.randint(0, 10 ** rng.randint(1, 5)))
    if kind == "mark":
        return rng.choice(MARKS) if rng.random() < 0.5 else any_word(rng) + rng.choice(".,;:!?")
    if kind == "end":
        return rng.choice(END_WORDS)
    if kind == "picture":
        return rng.choice(PICTURES)
    if kind == "han":
        return "".join(rng.choices(HAN, k=rng.randint(1, 3)))
    return any_word(rng)


def holds_out_every_word(exchange: Exchange) -> bool:
    """Say whether no word of a repeat's text was ever in a training text made of words."""
    return all(is_held_out(word.lower()) for word in exchange.answer.split())
