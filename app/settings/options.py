"""The command line's options as typed values, which commands receive instead of a namespace.

Pure values; knows neither argparse nor any command. Main thread.
"""

from dataclasses import dataclass, field
from pathlib import Path

from app import exits
from app.exits import CommandError
from engine import GenerationRequest, Message, Sampling, StopOptions, StopRules


def check_guessing(draft: Path | None, *, is_plain: bool) -> None:
    """Raise ``CommandError`` if both a draft model and plain decoding are requested."""
    if draft is not None and is_plain:
        raise CommandError(
            "--draft-model guesses tokens, and --plain-decoding checks no guesses; leave one of "
            "them out",
            exits.USAGE,
        )


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """How answers are generated.

    Attributes:
        stops: Stop strings, exactly as given.
        max_tokens: Most tokens of an answer; None until the context is full.
        temperature: 0 is greedy; None is the model's own default.
        seed: Makes sampling repeatable.
        system: The system prompt; empty for none.
        is_thinking: Whether the model reasons before it answers, if it can.
        stop_options: The stop options.
        thinking_budget: Most tokens of reasoning; None for no limit.
    """

    stops: tuple[str, ...] = ()
    max_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None
    system: str = ""
    is_thinking: bool = False
    stop_options: StopOptions = field(default_factory=StopOptions)
    thinking_budget: int | None = None

    def request(self, turns: tuple[Message, ...]) -> GenerationRequest:
        """Return the request for an answer to these turns."""
        system = (Message("system", self.system),) if self.system else ()
        return GenerationRequest(
            messages=system + turns,
            sampling=Sampling(temperature=self.temperature, seed=self.seed),
            stops=StopRules(strings=self.stops).with_options(self.stop_options),
            max_tokens=self.max_tokens,
            thinking=self.is_thinking,
            thinking_budget=self.thinking_budget,
        )


@dataclass(frozen=True, slots=True)
class AskOptions:
    """One question.

    Attributes:
        prompt: The question; ``-`` reads it from standard input.
        model: Folder of the model.
        draft: Folder of the draft model; None for none.
        is_plain: Whether to compute each token by itself, without guesses.
        answer: How the answer is generated.
        is_json: Whether to print one JSON object instead of a stream of text.
        saved_run: File to which the run is saved, so that it can be replayed.
    """

    prompt: str
    model: Path
    draft: Path | None = None
    is_plain: bool = False
    answer: AnswerOptions = field(default_factory=AnswerOptions)
    is_json: bool = False
    saved_run: Path | None = None


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The replay of a saved run.

    Attributes:
        file: File of the run.
        stops: Stop strings that replace the run's own; empty keeps those.
        drops_stops: Whether to play it without stop strings.
        is_json: Whether to print one JSON object.
    """

    file: Path
    stops: tuple[str, ...] = ()
    drops_stops: bool = False
    is_json: bool = False


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """A conversation, in the window or in the terminal.

    Attributes:
        model: Folder of the model.
        draft: Folder of the draft model. None for none; in the window, for the one chosen there.
        is_plain: Whether to compute each token by itself, without guesses.
        answer: How answers are generated.
        opened: A saved run that the window shows; None for none.
    """

    model: Path
    draft: Path | None = None
    is_plain: bool = False
    answer: AnswerOptions = field(default_factory=AnswerOptions)
    opened: Path | None = None
