"""Fields of requests: the model's name, and those that a table lists. Pure; any thread."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, WithJsonSchema, create_model

from api.dialects.shared.body import WireModel

_Model = TypeVar("_Model", bound=WireModel)

# The name of a model; absent and null are empty, and mean the model that answers by default.
ModelName = Annotated[
    str,
    BeforeValidator(lambda value: "" if value is None else value),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "null"}]}),
]


def with_fields(types: Mapping[str, Any]) -> Callable[[type[_Model]], type[_Model]]:
    """Return a decorator of wire models that adds optional fields."""
    fields: dict[str, Any] = {name: (type_, None) for name, type_ in types.items()}

    def added(model: type[_Model]) -> type[_Model]:
        if twice := sorted(fields.keys() & model.model_fields.keys()):
            raise ValueError(f"{model.__name__} already has the fields {', '.join(twice)}")
        made: Any = create_model(
            model.__name__,
            __base__=model,
            __module__=model.__module__,
            __doc__=model.__doc__,
            **fields,
        )
        return made  # type: ignore[no-any-return]

    return added
