"""What must be known of a model to follow one of its answers without it. Pure values."""

from dataclasses import dataclass, field

from engine.channels import ChannelFormat
from engine.stopping.record import Channel


@dataclass(frozen=True, slots=True)
class RunSetting:
    """The circumstances of one run, set when its request was taken.

    Attributes:
        model: The model's id.
        channels: The tags of its output.
        starts_in: The channel in which the answer starts.
        eos: Ids that end generation.
        context_room: Tokens that the context left for the answer.
        has_bytes: Whether the model's tokens are known byte strings.
        strips_first_space: Whether its decoder drops one space at the very beginning.
    """

    model: str = ""
    channels: ChannelFormat = field(default_factory=ChannelFormat)
    starts_in: Channel = Channel.TEXT
    eos: tuple[int, ...] = ()
    context_room: int = 0
    has_bytes: bool = True
    strips_first_space: bool = False
