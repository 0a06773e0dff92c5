"""What must be known of a model to follow one of its answers without it. Pure values."""

from dataclasses import dataclass, field

from engine.output.channels import Beginning
from engine.output.families.family import Family
from engine.output.families.known import PLAIN


@dataclass(frozen=True, slots=True)
class RunSetting:
    """The circumstances of one run, set when its request was taken.

    Attributes:
        model: The model's id.
        family: How it marks the channels of its output.
        beginning: Where the prompt left the answer.
        eos: Ids that end generation.
        context_room: Tokens that the context left for the answer.
        has_bytes: Whether the model's tokens are known byte strings.
        strips_first_space: Whether its decoder drops one space at the very beginning.
    """

    model: str = ""
    family: Family = PLAIN
    beginning: Beginning = field(default_factory=Beginning)
    eos: tuple[int, ...] = ()
    context_room: int = 0
    has_bytes: bool = True
    strips_first_space: bool = False
