"""What the command line asked for, as typed values that commands receive instead of a namespace.

Pure values; knows neither argparse nor any command. Main thread.
"""

from dataclasses import dataclass, field
from pathlib import Path

from app.process import exits
from app.process.exits import CommandError
from engine import GenerationRequest, Message, Sampling, StopOptions, StopRules


def check_guessing(draft: Path | None, *, is_plain: bool) -> None:
    """Raise ``CommandError`` where a draft model is to guess and nothing is to be guessed."""
    if draft is not None and is_plain:
        raise CommandError(
            "--draft-model guesses tokens, and --plain-decoding checks no guesses; leave one of "
            "them out",
            exits.USAGE,
        )


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """How answers are generated, wherever they are shown.

    Attributes:
        stops: Stop strings, exactly as given.
        max_tokens: Most tokens of an answer; None until the context is full.
        temperature: 0 is greedy; None is the model's own default.
        seed: Makes the draw repeatable.
        system: The system prompt; empty for none.
        is_thinking: Whether the model reasons before it answers, where it can.
        stop_options: How the stops count.
        thinking_budget: Most tokens of reasoning; None for any number.
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
        """Return the request that answers these turns."""
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
        draft: Folder of the draft model beside it; None for none.
        is_plain: Compute each token by itself, without guesses.
        answer: How it is answered.
        is_json: Print one JSON object instead of a stream of text.
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
    """A saved run, played again.

    Attributes:
        file: File of the run.
        stops: Stop strings in place of the run's own; none keeps those.
        drops_stops: Play it without any stop strings.
        is_json: Print one JSON object.
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
        draft: Folder of the draft model beside it; None for none, or in the window for the one that
            was chosen there.
        is_plain: Compute each token by itself, without guesses.
        answer: How answers are generated.
        opened: A saved run that the window shows; None for none.
    """

    model: Path
    draft: Path | None = None
    is_plain: bool = False
    answer: AnswerOptions = field(default_factory=AnswerOptions)
    opened: Path | None = None
