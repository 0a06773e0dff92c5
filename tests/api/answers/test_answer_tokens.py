"""The tokens of an answer, put together, are its text, whatever was held back or cut."""

from api.dialects.openai.write import answer_tokens, token_text
from engine.output.answer import AnswerBuilder, DecodingSetting, feed_traced
from engine.output.detokenizer import ByteDetokenizer
from engine.output.families import Family
from engine.output.vocabulary import Vocabulary
from engine.stopping.rules import StopRules
from engine.values.events import Event
from engine.values.tokens import TokenSpan

EOS = "<eos>"


TAGS = Family(think_start="<think>", think_end="</think>")


def played(pieces: list[bytes], rules: StopRules, tags: Family) -> list[list[Event]]:
    vocabulary = Vocabulary(
        raw=[*pieces, EOS.encode()],
        text=[_whole(piece) for piece in pieces] + [EOS],
        special={len(pieces): EOS},
        eos=frozenset({len(pieces)}),
        strips_first_space=False,
        size=len(pieces) + 1,
    )
    builder = AnswerBuilder(
        setting=DecodingSetting(family=tags, context_budget=10_000),
        rules=rules,
        max_tokens=None,
        vocabulary=vocabulary,
        detokenizer=ByteDetokenizer(vocabulary),
        reports_spans=True,
    )
    steps: list[list[Event]] = []
    for token_id in range(len(pieces) + 1):
        stop = feed_traced(builder, token_id, 0.0, None)
        steps.append(list(builder.text.events))
        builder.text.events.clear()
        if stop is not None:
            break
    return steps


def _whole(piece: bytes) -> str | None:
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return None


def entries(*pieces: bytes, stops: tuple[str, ...] = ()) -> list[TokenSpan]:
    steps = played(list(pieces), StopRules.of(*stops), TAGS)
    return answer_tokens(event for step in steps for event in step)


def test_a_token_that_a_stop_cuts_in_two_is_reported_up_to_the_stop() -> None:
    assert [token.text for token in entries(b"one", b" twoEN", b"D three", stops=("END",))] == [
        "one",
        " two",
    ]


def test_half_characters_are_reported_as_bytes() -> None:
    tokens = entries("👋".encode()[:2], "👋".encode()[2:], b"!")

    assert [token_text(token.raw) for token in tokens] == [
        "bytes:\\xf0\\x9f",
        "bytes:\\x91\\x8b",
        "!",
    ]
    assert [token.text for token in tokens] == ["", "👋", "!"]


def test_tags_and_thinking_are_not_reported() -> None:
    pieces = (b"<th", b"ink>", b"hm", b"</thi", b"nk>", b"\n\n", b"yes")

    assert [token.text for token in entries(*pieces)] == ["yes"]
