"""Forms of an answer other than JSON: a regular expression, a list of texts, a grammar.

Checks their bounds, and writes them as rules of llguidance's Lark dialect
(https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md). Pure text; knows no tokenizer
and no model. Any thread.
"""

import json
import re

from engine.values.request import TextForm
from engine.wording import counted

MOST_REGEX_CHARACTERS = 16_384
MOST_GRAMMAR_CHARACTERS = 65_536
MOST_CHOICES = 10_000
MOST_CHOICE_CHARACTERS = 128 * 1024
# The name of a request's own grammar within the grammar of the whole answer.
OWN_GRAMMAR = "own"

# Texts, regular expressions and comments of Lark, which may contain anything.
_QUOTED = re.compile(r'"(?:\\.|[^"\\\n])*"|/(?!/)(?:\\.|[^/\\\n])+/|//[^\n]*|#[^\n]*')
_SPECIAL_TOKEN = re.compile(r"<[^<>\n]*>")
_DIRECTIVE = re.compile(r"%(\w+)|@(\w+)")
_ALLOWED_DIRECTIVES = frozenset({"ignore", "import", "llguidance"})
_OPTIONS_LINE = re.compile(r"^\s*%llguidance\s*\{\s*\}\s*$", re.MULTILINE)


def field_of(form: TextForm) -> str:
    """Return the engine's name of the field that asks for a form."""
    if form.regex is not None:
        return "constraint.regex"
    return "constraint.choices" if form.choices else "constraint.grammar"


def check_bounds(form: TextForm) -> None:
    """Check that a form is not empty and within the bounds."""
    texts = _texts(form)
    if len(texts) > MOST_CHOICES:
        raise ValueError(f"at most {MOST_CHOICES} texts are supported")
    if form.regex is not None:
        most = MOST_REGEX_CHARACTERS
    else:
        most = MOST_CHOICE_CHARACTERS if form.choices else MOST_GRAMMAR_CHARACTERS
    if sum(map(len, texts)) > most:
        raise ValueError(f"at most {counted(most, 'character')} are supported")
    for text in texts:
        if not text:
            raise ValueError("must not be empty")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError("contains a lone surrogate, which is not a character") from None


def fingerprint(form: TextForm) -> str:
    """Return a text that two forms share only if they are the same."""
    return json.dumps([field_of(form), *_texts(form)])


def document_rules(form: TextForm) -> list[str]:
    """Return the rules of ``document``; a grammar is referred to by the name ``OWN_GRAMMAR``."""
    if form.regex is not None:
        return ["document: DOCUMENT", f"DOCUMENT: /{_in_slashes(form.regex)}/"]
    if form.choices:
        spelled = map(_in_quotes, dict.fromkeys(form.choices))
        return [f"document: {' | '.join(spelled)}"]
    return [f"document: @{OWN_GRAMMAR}"]


def with_own_grammar(rules: str, lark: str | None) -> str:
    """Return the rules of a whole answer together with the grammar that they refer to."""
    if lark is None:
        return rules
    grammars = [
        {"name": "answer", "lark_grammar": rules},
        {"name": OWN_GRAMMAR, "lark_grammar": lark},
    ]
    return json.dumps({"grammars": grammars}, ensure_ascii=False)


def checked_lark(lark: str) -> str:
    """Return a request's grammar if it is only about text.

    Special tokens would open channels (reasoning, tool calls) or end the answer, and inner JSON
    schemas would not be checked against the bounds of schemas.
    """
    bare = _QUOTED.sub('""', _OPTIONS_LINE.sub("", lark))
    if (token := _SPECIAL_TOKEN.search(bare)) is not None:
        raise ValueError(f"special tokens are not supported in a grammar: {token.group()[:80]}")
    for found in _DIRECTIVE.finditer(bare):
        if found[1] == "json":
            raise ValueError("%json is not supported in a grammar; ask for the JSON schema instead")
        if found[1] not in _ALLOWED_DIRECTIVES:
            raise ValueError(f"{found.group()[:80]} is not supported in a grammar")
        if found[1] == "llguidance":
            raise ValueError("options of %llguidance are not supported")
    return lark


def _texts(form: TextForm) -> tuple[str, ...]:
    if form.regex is not None:
        return (form.regex,)
    return form.choices or ((form.grammar or ""),)


def _in_quotes(text: str) -> str:
    """Return a text as a string of Lark, which may not contain control characters."""
    return json.dumps(text).replace("\x7f", "\\u007f")


def _in_slashes(regex: str) -> str:
    """Return a regular expression for use between slashes, without control characters."""
    parts: list[str] = []
    is_escaped = False
    for character in regex:
        if character == "/" and not is_escaped:
            parts.append("\\/")
        elif character.isprintable():
            parts.append(character)
        else:
            # If it is escaped, its backslash is in ``parts`` already.
            parts.append(f"{'' if is_escaped else chr(92)}x{{{ord(character):x}}}")
        is_escaped = character == "\\" and not is_escaped
    return "".join(parts)
