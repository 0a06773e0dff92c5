"""Forms of an answer other than JSON: a regular expression, choices, or a client's own grammar.

Written as rules of llguidance's Lark dialect
(https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md).
"""

import json
import re

from engine.grammar.compilation import as_lark
from engine.grammar.lark_text import in_slashes, quoted
from engine.values.request import TextForm
from engine.wording import counted

MAX_REGEX_CHARACTERS = 16_384
MAX_GRAMMAR_CHARACTERS = 65_536
# The library's work for a token grows with the square of the parts that may be empty.
MAX_OPTIONAL_PARTS = 1_000
MAX_CHOICES = 10_000
MAX_CHOICE_CHARACTERS = 128 * 1024
# The name of a request's own grammar within the grammar of the whole answer.
OWN_GRAMMAR = "own"

# Texts, regular expressions and comments of Lark, which may contain anything.
_QUOTED = re.compile(r'"(?:\\.|[^"\\\n])*"|/(?!/)(?:\\.|[^/\\\n])+/|//[^\n]*|#[^\n]*')
_SPECIAL_TOKEN = re.compile(r"<[^<>\n]*>")
_OPTIONAL = re.compile(r"[?*]|\{\s*(?:0|,)[\s,]*(\d*)")
_DIRECTIVE = re.compile(r"%(\w+)|@(\w+)")
_ALLOWED_DIRECTIVES = frozenset({"ignore", "import", "llguidance"})
_OPTIONS_LINE = re.compile(r"^\s*%llguidance\s*\{\s*\}\s*$", re.MULTILINE)


def _check_bounds(form: TextForm) -> None:
    texts = (form.regex,) if form.regex is not None else form.choices or (form.grammar or "",)
    if len(texts) > MAX_CHOICES:
        raise ValueError(f"at most {MAX_CHOICES} texts are supported")
    if form.regex is not None:
        limit = MAX_REGEX_CHARACTERS
    else:
        limit = MAX_CHOICE_CHARACTERS if form.choices else MAX_GRAMMAR_CHARACTERS
    if sum(map(len, texts)) > limit:
        raise ValueError(f"at most {counted(limit, 'character')} are supported")
    for text in texts:
        if not text:
            raise ValueError("must not be empty")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError("contains a lone surrogate, which is not a character") from None


def document_rules(form: TextForm) -> list[str]:
    """Return the rules of ``document``, which refer to ``OWN_GRAMMAR``; raises ``ValueError``."""
    _check_bounds(form)
    if form.regex is not None:
        return ["document: DOCUMENT", f"DOCUMENT: {in_slashes(form.regex)}"]
    if form.choices:
        spelled = map(quoted, dict.fromkeys(form.choices))
        return [f"document: {' | '.join(spelled)}"]
    return [f"document: @{OWN_GRAMMAR}"]


def with_own_grammar(rules: str, form: TextForm | None) -> str:
    """Return the rules of a whole answer together with the grammar that they refer to."""
    if form is None or form.grammar is None:
        return rules
    grammars = [
        {"name": "answer", "lark_grammar": rules},
        {"name": OWN_GRAMMAR, "lark_grammar": _checked_lark(as_lark(form.grammar))},
    ]
    return json.dumps({"grammars": grammars}, ensure_ascii=False)


def _checked_lark(lark: str) -> str:
    """Return a request's grammar if it is only about text.

    Special tokens would open channels (reasoning, tool calls) or end the answer, and inner JSON
    schemas would not be checked against the bounds of schemas.
    """
    bare = _QUOTED.sub('""', _OPTIONS_LINE.sub("", lark))
    if (token := _SPECIAL_TOKEN.search(bare)) is not None:
        raise ValueError(f"special tokens are not supported in a grammar: {token.group()[:80]}")
    for directive in _DIRECTIVE.finditer(bare):
        if directive[1] == "json":
            raise ValueError("%json is not supported in a grammar; ask for the JSON schema instead")
        if directive[1] not in _ALLOWED_DIRECTIVES:
            raise ValueError(f"{directive.group()[:80]} is not supported in a grammar")
        if directive[1] == "llguidance":
            raise ValueError("options of %llguidance are not supported")
    # The library halves long repetitions, so a longer one takes hardly more.
    counts = (min(int(found[1] or 1), 20) for found in _OPTIONAL.finditer(bare))
    if (total := sum(counts)) > MAX_OPTIONAL_PARTS:
        raise ValueError(
            f"it has {total} optional or repeated parts, at most {MAX_OPTIONAL_PARTS} are "
            "supported; write repetitions of single characters as regular expressions"
        )
    return lark
