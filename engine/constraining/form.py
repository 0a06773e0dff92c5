"""The compiled form of a constrained answer, for the rest of the engine.

Imports nothing that compiles grammars: the first constrained answer imports that. Any thread.
"""

from dataclasses import dataclass
from typing import Any

from engine.errors import EngineError
from engine.values.request import GenerationRequest


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """A constraint, compiled for one model and one answer.

    Attributes:
        maker: The ``FormCompiler`` of the model, which made it.
        matcher: The grammar at its beginning.
    """

    maker: Any
    matcher: Any


class FormMissing(EngineError):
    """A constrained request came without a form of the loaded model.

    Attributes:
        maker: The ``FormCompiler`` that can prepare it.
    """

    def __init__(self, maker: Any) -> None:
        super().__init__("the model changed before the form of the answer was prepared; try again")
        self.maker = maker


def is_constrained(request: GenerationRequest) -> bool:
    """Return whether a grammar constrains the answer to a request."""
    return request.constraint is not None or request.tool_choice.mode == "required"
