"""The words that prompts are made of, and the split that keeps some of them out of training.

Knows nothing of prompts or models. Functions depend on their random generator alone; any thread.
"""

from __future__ import annotations

import re
import string
import zlib
from collections.abc import Callable
from functools import cache
from random import Random
from typing import TypeVar

from tokenizer import reference_texts

T = TypeVar("T")


def split(text: str) -> list[str]:
    """Return the words of a list that is written as one text."""
    return text.split()


CITIES = split(
    "Paris London Berlin Rome Madrid Lisbon Vienna Prague Oslo Tokyo Kyoto Delhi Cairo Lima "
    "Quito Boston Chicago Denver Dallas Seattle Toronto Sydney Perth Dublin Athens Warsaw "
    "Geneva Munich Hamburg Lyon Nice Milan Naples Zurich Basel Bern Helsinki Stockholm Moscow "
    "Istanbul Nairobi Lagos Accra Bogota Havana Seoul Beijing Shanghai"
)
PEOPLE = split(
    "Anna Bob Carla David Emma Felix Grace Henry Ivy Jack Kim Leo Maria Noah Olga Paul "
    "Rosa Sam Tom Vera"
)
LANGUAGES = split(
    "French German Spanish Italian Latin Greek Dutch Polish Danish Turkish Hindi Korean Japanese"
)
END_WORDS = split("END STOP DONE FIN HALT OVER")
PICTURES = split("😀 🎉 🚀 ❤️ 👍 🌍 🐱 ☕ ✅ 🔥")
HAN = "你好世界我们中文字天地人日月山水火木金土大小上下"
SYLLABLES = [
    a + b
    for a in split("b c d f g h k l m n p r s t v w z bl br dr fl gr kr pl st tr")
    for b in "aeiou"
]
CODAS = ["", "", "", "n", "r", "s", "x", "k", "l", "m", "nd", "rk", "st"]


def is_held_out(key: str) -> bool:
    """Say whether ``key``, a word or the parameters of a prompt, is among the eighth kept out."""
    return zlib.crc32(("held out?" + key).encode()) % 8 == 0


def drawn(draw: Callable[[], T], key: Callable[[T], str], held_out: bool) -> T:
    """Draw until the key of what was drawn is on the wanted side of the split."""
    while is_held_out(key(value := draw())) != held_out:
        pass
    return value


@cache
def _whole_reference() -> str:
    return "\n\n".join(reference_texts())


@cache
def reference() -> str:
    """Return the text that training takes passages from, without any held-out word."""
    return re.sub(
        r"[A-Za-z]+ ?",
        lambda word: "" if is_held_out(word[0].strip().lower()) else word[0],
        _whole_reference(),
    )


@cache
def words(held_out: bool) -> list[str]:
    """Return the lower-case words of the reference text on one side of the split."""
    found = sorted(set(re.findall(r"\b[a-z]{2,11}\b", _whole_reference())))
    return [word for word in found if is_held_out(word) == held_out]


def invented_word(rng: Random, held_out: bool = False) -> str:
    """Return a word that can be pronounced and most likely means nothing."""

    def draw() -> str:
        return "".join(rng.choice(SYLLABLES) for _ in range(rng.choice((1, 2, 2, 3)))) + rng.choice(
            CODAS
        )

    return drawn(draw, str, held_out)


def letter_string(rng: Random, held_out: bool = False) -> str:
    """Return two to eight random letters, in one case most of the time."""
    alphabet = rng.choice(
        (
            string.ascii_lowercase,
            string.ascii_lowercase,
            string.ascii_uppercase,
            string.ascii_letters,
        )
    )
    return drawn(
        lambda: "".join(rng.choices(alphabet, k=rng.randint(2, 8))),
        lambda text: text.lower(),
        held_out,
    )


def any_word(rng: Random, held_out: bool = False) -> str:
    """Return a word of any of the three sorts, now and then capitalised."""
    sort = rng.random()
    if sort < 0.4:
        word = rng.choice(words(held_out))
    elif sort < 0.65:
        word = invented_word(rng, held_out)
    else:
        return letter_string(rng, held_out)
    return rng.choice((word, word, word, word, word.capitalize(), word.upper()))


def passage(rng: Random, length: int) -> str:
    """Return about ``length`` characters of the reference text, cut between words."""
    text = reference()
    start = rng.randrange(len(text) - length - 40)
    start = text.index(" ", start) + 1 if " " in text[start : start + 40] else start
    return text[start : start + length].strip() or "nothing"


def sentence(rng: Random) -> str:
    """Return some words in a row, most often on one line."""
    return re.sub(r"\s+", " ", passage(rng, rng.randint(8, 90)))


def recased(rng: Random, template: str) -> str:
    """Change the case of a template's own words now and then, and leave ``{names}`` alone."""
    way = rng.random()
    if way < 0.72:
        return template
    change: Callable[[str], str] = str.lower if way < 0.92 else str.upper
    parts = re.split(r"(\{\w+\})", template)
    return "".join(part if part.startswith("{") else change(part) for part in parts)


def asked(rng: Random, template: str, closing: bool = True) -> str:
    """Put a template the way people do: polite or not, in any case, with or without a full stop."""
    before = rng.choice(
        ("", "", "", "", "", "Please ", "please ", "Can you ", "Now ", "Hey, ", "Could you please ")
    )
    if before and template[:1].isupper():
        template = template[0].lower() + template[1:]
    after = rng.choice(("", "", "", ".", ".", "!", " please", ", please.")) if closing else ""
    if before.endswith(("Can you ", "please ")) and after == ".":
        after = "?"
    return recased(rng, before + template + after)
