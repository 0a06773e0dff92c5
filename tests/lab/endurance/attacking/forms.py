"""Draws regular expressions, Lark grammars and lists of texts; most are sensible. Pure."""

import random
from collections.abc import Sequence

from engine.values.request import TextForm

_USUAL_ATOMS = (
    "a",
    "b",
    ".",
    r"\d",
    r"\w",
    "[a-z]",
    "[^x]",
    "[é-ü]",
    "(a|b)",
    "(?i:ab)",
    "😀",
    r"\.",
)
_USUAL_REPEATS = ("", "", "", "", "*", "+", "?", "{2}", "{2,5}", "{3,}")
_ODD_SHARE = 0.05
_ATOMS = (
    "a", "b", ".", r"\d", r"\w+", r"\s", "[a-z]", "[^x]", "[é-ü]", "(a|b)", "(?:x|)", "^", "$",
    r"\b", "(?i:ab)", r"\p{L}", r"\x00", r"\u{10FFFF}", "(?=a)", "(?!b)", r"(a)\1", "(?P<n>c)",
    "\\", "[", "(", ")", "]", "/", "", "\n", "\x00", "😀", "[z-a]", "(?s:.)", "&", "~", "[]", "{",
)  # fmt: skip
_REPEATS = (
    "", "", "", "*", "+", "?", "{2}", "{0}", "{2,5}", "{,3}", "{3,}", "{5,2}", "{1000}",
    "{0,100000}", "{99999999999}", "*?", "+?", "**",
)  # fmt: skip
_TERMINALS = (
    '"a"',
    '"b" "c"',
    "/[a-z]+/",
    "/./",
    '"\\n"',
    "/[0-9]{2}/",
    "/(a?){30}a{30}/",
    '"é"',
    "/x{9999}/",
)
_NAMES = ("start", "one", "two", "three", "A", "B", "gone", "_x", "start_")
_LINES = (
    "%ignore /\\s+/", "%ignore /./", "%import common.INT", "%import common.NOTHING",
    "%llguidance {}", "%llguidance {\"no_forcing\": true}", "// a remark", "%declare X", "@one",
    "%json {}", "start.1: A", 'A[capture]: "x"', "three[lazy]: /a.*b/", ":",
    "start:", "->", "A: B\nB: A",
)  # fmt: skip
_GBNF = (
    'root ::= "a" | root "b"',
    'root ::= [a-z]+ x\nx ::= "y"?',
    "root ::=",
    "root ::= (((",
    "root ::= root",
)
_USUAL_TEXTS = ("a", "ab", "é", "😀", "\n", '"', "\\", "/", "yes", "no", "a" * 500)
_TEXTS = (
    "a",
    "ab",
    "",
    "é",
    "😀",
    "\n",
    '"',
    "\\",
    "/",
    "\x00",
    "<|im_end|>",
    "yes",
    "no",
    "a" * 500,
    "\ud800",
)


def _odd(draws: random.Random, usual: Sequence[str], every: Sequence[str]) -> Sequence[str]:
    return every if draws.random() < _ODD_SHARE else usual


def form(draws: random.Random) -> TextForm:
    """Return a form of one of the three kinds."""
    match draws.randrange(3):
        case 0:
            return TextForm(regex=_regex(draws, draws.randint(0, 3)))
        case 1:
            texts = draws.choices(_odd(draws, _USUAL_TEXTS, _TEXTS), k=draws.choice((1, 2, 3, 300)))
            return TextForm(choices=tuple(texts))
        case _:
            return TextForm(grammar=_grammar(draws))


def _regex(draws: random.Random, depth: int) -> str:
    parts = []
    for _ in range(draws.randint(1, 4)):
        inner = draws.choice(_odd(draws, _USUAL_ATOMS, _ATOMS))
        if depth and draws.random() < 0.6:
            inner = draws.choice(("({})", "(?:{})", "({})|x", "[^a]{}")).replace(
                "{}", _regex(draws, depth - 1)
            )
        parts.append(inner + draws.choice(_odd(draws, _USUAL_REPEATS, _REPEATS)))
    return "".join(parts)


def _grammar(draws: random.Random) -> str:
    if draws.random() < 0.15:
        return draws.choice(_GBNF)
    lines = []
    names = ["start", *draws.sample(_NAMES[1:6], draws.randint(0, 5))]
    names += draws.sample(_NAMES, 1) * (draws.random() < _ODD_SHARE)
    for name in names:
        ways = [
            " ".join(
                draws.choice((*_TERMINALS, *names, *names))
                + draws.choice(_odd(draws, ("", "", "", "*", "+", "?"), _REPEATS))
                for _ in range(draws.randint(1, 4))
            )
            for _ in range(draws.randint(1, 3))
        ]
        lines.append(f"{name}: {' | '.join(ways)}")
    if draws.random() < 0.3:
        lines.insert(draws.randrange(len(lines) + 1), draws.choice(_LINES))
    return "\n".join(lines)
