"""The settings with which an answer is read. Pure values."""

from dataclasses import dataclass, field

from engine.output.call_readers.arriving import CallParser, NewReader, no_reader
from engine.output.channels import Beginning
from engine.output.detokenizer import Detokenizer
from engine.output.families.family import Family
from engine.output.families.known import PLAIN
from engine.output.vocabulary import Vocabulary
from engine.stopping.rules import StopRules


@dataclass(frozen=True, slots=True)
class RunSetting:
    """What is needed to read the answer of a run again without its model.

    Attributes:
        model: The model's id.
        family: How it marks the channels of its output.
        beginning: Where the answer begins.
        eos: Ids that end generation.
        context_room: Tokens that the model's context left for the answer.
        memory_room: Tokens for which memory was left, where that was less; otherwise None.
        has_bytes: Whether the model's tokens are known byte strings.
        strips_first_space: Whether its decoder drops one space at the very beginning.
    """

    model: str = ""
    family: Family = PLAIN
    beginning: Beginning = field(default_factory=Beginning)
    eos: tuple[int, ...] = ()
    context_room: int = 0
    memory_room: int | None = None
    has_bytes: bool = True
    strips_first_space: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSetup:
    """Everything that is needed to read one answer.

    Attributes:
        setting: Where the answer begins, in which format, and how much the context leaves.
        rules: The stops of the request.
        max_tokens: The request's limit; None for as many tokens as the context has room for.
        vocabulary: The vocabulary of the answer.
        detokenizer: Turns token ids into text; for this answer alone.
        parse_calls: The parser of the model's tool calls.
        new_reader: Makes the reader of a call while it is written.
        tells_spans: Whether to report for each token its part of the text.
    """

    setting: RunSetting
    rules: StopRules
    max_tokens: int | None
    vocabulary: Vocabulary
    detokenizer: Detokenizer
    parse_calls: CallParser
    new_reader: NewReader = no_reader
    tells_spans: bool = False
