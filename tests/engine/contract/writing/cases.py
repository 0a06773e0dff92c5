"""Random cases that are rich: a grammar of answers, and stops taken from what they say.

A script is thinking, answers, calls whole and cut, tags typed as plain text, split characters
and what almost is a tag. Stops are cut from the output, from tags and special tokens, or miss
narrowly; ids come from the script; limits lie where something happens.
"""

import random
from dataclasses import replace

from engine.stopping.record import Channel
from tests.engine.contract.reading import Reading
from tests.engine.contract.writing.case import Case, first_reading
from tests.engine.contract.writing.families import FAMILIES, HARMONY_MARKERS
from tests.engine.contract.writing.limits import random_stops, with_limits
from tests.engine.contract.writing.pieces import BROKEN
from tests.engine.contract.writing.vocabularies import (
    EOS,
    GO,
    KINDS,
    LATE_EOS,
    ODD,
    Model,
    model,
    texts_of_tags,
)

_WORDS = (
    "the", " the", " an", "ana", "nan", "END", "EN", "ND", "END.", " no", "yes", "ok", "hm", "aab",
    "aba", "\n", "\n\n", " ", "  ", " \n", "Observation:", "User:", "###", "é", "🚀", "数",
    "a\u0301", ".", ", ", "!", "'", "\u00a0", "1", "7", "<|", "|>", "</", "<t", "[", "]", "{", "}",
)  # fmt: skip
_CALLS = (
    '{"name": "add", "arguments": {"a": 1}}',
    '\n{"name": "mul", "arguments": {"b": [1, 2]}}\n',
    '{"name": "add", "arguments": {"a": "END"}}',
    '{"name": "add"}',
    '{"name": "add", "arguments": "{}"}',
    '[{"name": "add", "arguments": {}}, {"name": "mul", "arguments": {"a": "é"}}]',
)
_NO_CALLS = (
    "[]",
    '{"name": "add", "arguments": [1]}',
    "{broken",
    "",
    "END",
    '{"name": ""}',
    '{"name": "add", "argum',
    "[1]",
    "数 a <t",
)
_ARGUMENTS = ('{"a": 1}', '{"a": "END"}', '{"b": [1, 2]}', "{}", '{"a": "数"}')
_NO_ARGUMENTS = ("{broken", "", '{"a": 1', "END", "[1]", "1")
_PROMPT_TAILS = ("", "", "", "the <|im_end|>", "x", "an END of")


class Writer:
    """Writes the script of one case.

    Attributes:
        ids: The script so far.
    """

    def __init__(self, made: Model, rng: random.Random) -> None:
        self.ids: list[int] = []
        self._model = made
        self._rng = rng

    def say(self, text: str) -> None:
        self.ids += self._model.spell(text, self._rng)

    def token(self, piece: str | bytes) -> None:
        self.ids.append(self._model.ids[piece])

    def tag(self, tag: tuple[str, ...]) -> None:
        """Write a tag: by its own tokens, seldom by others with the same letters."""
        if self._rng.random() < 0.1 and len(tag) > 1:
            self.say("".join(tag))
            return
        for piece in tag:
            self.token(piece)

    def words(self, most: int = 4) -> None:
        """Write some text with whatever may lie in it."""
        rng = self._rng
        for _ in range(rng.randint(0, most)):
            chance = rng.random()
            if chance < 0.72:
                self.say(rng.choice(_WORDS))
            elif chance < 0.84 and self._model.raw is not None:
                self._bytes()
            elif chance < 0.90:
                self.token(rng.choice((ODD, ODD, EOS, LATE_EOS)) if rng.random() < 0.4 else ODD)
            elif chance < 0.95:
                self._almost_a_tag()
            else:
                self.token(rng.choice([piece for piece in self._model.ids if piece != GO]))

    def _bytes(self) -> None:
        rng, ids = self._rng, self._model.ids
        if self._model.kind == "byte-level" and rng.random() < 0.6:
            self.token(rng.choice(BROKEN))
            return
        raw = rng.choice(("é", "🚀", "数")).encode()
        cut = rng.randint(1, len(raw)) if rng.random() < 0.5 else len(raw)
        for byte in raw[:cut]:
            self.ids.append(ids[bytes([byte])])

    def _almost_a_tag(self) -> None:
        rng = self._rng
        tags = [text for text in (*texts_of_tags(self._model), EOS) if text]
        text = rng.choice(tags)
        self._spell_letters(text if rng.random() < 0.4 else text[: rng.randint(1, len(text))])

    def _spell_letters(self, text: str) -> None:
        whole = set(self._model.special.values()) | set(self._model.family.plain_tokens)
        at = 0
        while at < len(text):
            lengths = [
                n
                for n in range(1, len(text) - at + 1)
                if text[at : at + n] in self._model.ids and text[at : at + n] not in whole
            ]
            length = self._rng.choice(lengths or [1])
            self.token(text[at : at + length])
            at += length


def _tagged(writer: Writer, made: Model, rng: random.Random, channel: Channel) -> None:
    family = made.family
    thinks = channel is Channel.THINKING
    if channel is Channel.TOOL and family.tool is not None:
        end = "}" if family.style == "brackets" else "}}"
        writer.say(rng.choice((f"1{end}", f' "END"{end}', "{broken", "1", "")))
        if family.tool[1] and rng.random() < 0.8:
            writer.tag(family.tool[1])
    if thinks and family.think is not None:
        writer.words()
        writer.tag(family.think[1])
    for _ in range(rng.randint(1, 3)):
        chance = rng.random()
        if chance < 0.4 and family.think is not None:
            writer.tag(family.think[0])
            if rng.random() < 0.4:
                writer.say(rng.choice(("\n", " ", "\n\n")))
            writer.words()
            if rng.random() < 0.85:
                writer.tag(family.think[1])
                if rng.random() < 0.6:
                    writer.say(rng.choice(("\n\n", "\n", " ")))
        elif chance < 0.75 and family.tool is not None:
            _call(writer, made, rng)
        else:
            writer.words()
    if family.name != "plain" and rng.random() < 0.15:
        writer.tag(rng.choice([t for t in (*(family.think or ()), *(family.tool or ())) if t]))
        writer.words(2)


def _call(writer: Writer, made: Model, rng: random.Random) -> None:
    family = made.family
    assert family.tool is not None
    start, end = family.tool
    writer.tag(start)
    is_good = rng.random() < 0.7
    if family.style == "brackets":
        for _ in range(rng.choice((1, 1, 1, 2))):
            writer.say(rng.choice(("add", "mul")))
            if is_good or rng.random() < 0.5:
                writer.token("[ARGS]")
            writer.say(rng.choice(_ARGUMENTS if is_good else _NO_ARGUMENTS))
    else:
        writer.say(rng.choice(_CALLS if is_good else _NO_CALLS))
    if rng.random() < 0.1:
        writer.words(2)
    if end and rng.random() < 0.85:
        writer.tag(end)
    if rng.random() < 0.3:
        writer.say(rng.choice(("\n", " ", "\n\n", "ok")))


def _harmony(writer: Writer, made: Model, rng: random.Random, start: Reading) -> None:
    is_first = True
    for _ in range(rng.randint(1, 3)):
        if not is_first or (start.header is None and not start.in_message):
            writer.token("<|start|>")
            writer.say("assistant")
        kind = rng.choice(("analysis", "final", "commentary", "call", "call"))
        if rng.random() < 0.06:
            kind = "final"  # without a header
        elif not (is_first and start.in_message):
            recipient = " to=functions." + rng.choice(("add", "mul"))
            if kind == "call" and rng.random() < 0.2:
                writer.say(recipient)
                recipient = ""
            if not (is_first and "<|channel|>" in (start.header or "")) and rng.random() < 0.97:
                writer.token("<|channel|>")
                writer.say("commentary" if kind == "call" else kind)
            if kind == "call":
                writer.say(recipient + " ")
                if rng.random() < 0.7:
                    writer.token("<|constrain|>")
                writer.say("json")
            if rng.random() < 0.95:
                writer.token("<|message|>")
        if is_first and start.channel is Channel.TOOL:
            writer.say(rng.choice(("1}", ' "END"}', "{broken", "")))
        elif kind == "call":
            writer.say(rng.choice(_ARGUMENTS if rng.random() < 0.75 else _NO_ARGUMENTS))
        else:
            writer.words()
        chance = rng.random()
        if chance < 0.75:
            writer.token("<|call|>" if kind == "call" and chance < 0.6 else "<|end|>")
        elif chance < 0.85:
            writer.token(rng.choice(HARMONY_MARKERS))
        if rng.random() < 0.1:
            writer.words(2)
        is_first = False


def _prompt(made: Model, rng: random.Random) -> str:
    family = made.family
    tail = rng.choice(_PROMPT_TAILS)
    if family.is_harmony:
        start = "<|start|>user<|message|>hm<|end|><|start|>assistant"
        return rng.choice(
            (
                start,
                start,
                start + "<|channel|>analysis",
                start + "<|channel|>analysis<|message|>the",
                start + "<|channel|>final<|message|>an END",
                start + "<|channel|>",
                start + "<|channel|>final<|message|>an<|end|>",
                start + ' to=functions.add<|channel|>commentary json<|message|>{"a": ',
                "x",
            )
        )
    has_bytes = made.raw is not None
    if family.tool is not None and has_bytes and rng.random() < 0.1:
        begun = "add[ARGS]" if family.style == "brackets" else '{"name": "add", "arguments": '
        return "".join(family.tool[0]) + begun + '{"a": '
    is_spelled = made.kind in ("word-piece", "metaspace") and family.name.startswith("long")
    if family.think is None or is_spelled or rng.random() < 0.6:
        return tail
    opening, closing = ("".join(tag) for tag in family.think)
    return rng.choice(
        (
            opening,
            opening + "\n",
            f"{tail}{opening}\nhm",
            f"{opening}{'hm the ' * 12}",
            f"{opening}hm{closing}\n\n",
            f"{opening}hm{closing}",
            f"{opening}hm{closing}{opening}",
        )
    )


def random_case(rng: random.Random, names: list[tuple[str, str]] | None = None) -> Case:
    """Return one case.

    Args:
        rng: Decides everything.
        names: The kinds and families to choose from; all of them without it.
    """
    kind = rng.choices(KINDS, weights=(5, 2, 1, 1))[0]
    family = rng.choice(list(FAMILIES))
    if names is not None:
        kind, family = rng.choice(names)
    made = model(kind, family)
    writer = Writer(made, rng)
    is_raw = rng.random() < 0.08
    prompt = rng.choice(("a", "the", "an END")) if is_raw else _prompt(made, rng)
    begins_call = prompt.endswith('{"a": ') and not made.family.is_harmony
    prompt = prompt.rstrip() if begins_call else prompt
    is_prefill = not is_raw and prompt == prompt.strip() != "" and rng.random() < 0.3
    is_prefill = is_prefill or begins_call
    case = Case(kind, family, (), prompt=prompt, is_raw=is_raw, is_prefill=is_prefill)
    case = replace(case, has_tools=rng.random() < 0.9)
    start = first_reading(case)
    if made.family.is_harmony:
        _harmony(writer, made, rng, start)
    else:
        _tagged(writer, made, rng, start.channel)
    script = writer.ids
    if rng.random() < 0.05 and script:
        script.insert(rng.randrange(len(script)), made.ids[rng.choice((EOS, LATE_EOS, ODD))])
    if script and rng.random() < 0.4:
        at, length = rng.randrange(len(script)), rng.choice((1, 1, 2, 3, 5, 8))
        repeated = script[at : at + length]
        if '"' not in made.decode(repeated):  # no object may have a field twice
            script[at:at] = repeated * rng.choice((1, 2, 3, 5, 9, 70))
    case = replace(case, script=tuple(script))
    return with_limits(replace(case, rules=random_stops(case, rng)), rng)
