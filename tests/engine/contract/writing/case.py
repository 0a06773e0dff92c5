"""One case: a request, and the script that the model answers it with."""

from dataclasses import dataclass, field

from engine.stopping.rules import StopRules
from tests.engine.contract.reading import Reading
from tests.engine.contract.writing.beginnings import start_of
from tests.engine.contract.writing.vocabularies import Model, model


@dataclass(frozen=True)
class Case:
    """One request and one script.

    Attributes:
        kind: Of vocabulary.
        family: Of model.
        script: The ids that the model emits, then EOS for ever.
        rules: The request's stops.
        prompt: What the templated prompt ends in; of a raw prompt, its text.
        is_raw: Whether the prompt is raw.
        is_prefill: Whether what it ends in is the beginning of the assistant's last message.
        max_tokens: The request's limit.
        room: Tokens that the context leaves for the answer.
        cancel_after: Cancel after so many tokens; None never does.
        has_tools: Whether tools are offered; without them a call is text.
    """

    kind: str
    family: str
    script: tuple[int, ...]
    rules: StopRules = field(default_factory=StopRules)
    prompt: str = ""
    is_raw: bool = False
    is_prefill: bool = False
    max_tokens: int | None = None
    room: int = 1000
    cancel_after: int | None = None
    has_tools: bool = True

    @property
    def model(self) -> Model:
        return model(self.kind, self.family)


def first_reading(case: Case) -> Reading:
    if case.is_raw:
        start = Reading(case.model, is_raw=True)
    else:
        start = start_of(
            case.model, case.prompt, is_prefill=case.is_prefill, has_tools=case.has_tools
        )
    if case.is_raw or case.is_prefill or start.header is not None:
        # It continues a text, so its first piece is not a beginning.
        start.has_text = True
        start.plain = (case.model.ids["a"],)
    return start
