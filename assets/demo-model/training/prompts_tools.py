"""Exchanges with tools: a call, named after the list and filled from the question, or its result.

Knows nothing of chat formats or models; any thread.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

from exchange import Exchange, Message, Tool
from lexicon import (
    CITIES,
    LANGUAGES,
    PEOPLE,
    any_word,
    asked,
    drawn,
    invented_word,
    is_held_out,
    letter_string,
    split,
    words,
)
from tool_rows import KNOWN, NUMERIC, PARAMETERS

UNITS = split("miles km metres feet pounds kilos grams litres cups inches euros dollars yen")
VERBS = split(
    "get set find make open close start stop check list read write create delete "
    "update run fetch book order buy"
)


def calling(rng: Random, held_out: bool = False) -> Exchange:
    """Return an exchange that one of one to three offered tools answers."""
    tool, template, values = (
        _known(rng, held_out) if rng.random() < 0.6 else _made_up(rng, held_out)
    )
    others = [
        (_known(rng, held_out) if rng.random() < 0.5 else _made_up(rng, held_out))[0]
        for _ in range(rng.choice((0, 0, 1, 2)))
    ]
    name = tool["function"]["name"]
    tools = [tool, *(other for other in others if _subject(other) != _subject(tool))]
    rng.shuffle(tools)
    question = asked(rng, template).format(**{slot: str(value) for slot, value in values.items()})
    names = list(tool["function"]["parameters"]["properties"])
    arguments: dict[str, Any] = dict(zip(names, values.values(), strict=True))
    body = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    call = {"type": "function", "function": {"name": name, "arguments": arguments}}
    thought = f"The tool {name} can do this."
    return Exchange(
        question,
        f"<tool_call>\n{body}\n</tool_call>",
        thought,
        "tools",
        body,
        tuple(tools),
        (call,),
    )


def reporting(rng: Random, held_out: bool = False) -> tuple[Exchange, Message, Exchange]:
    """Return a call, the tool's message and the exchange that reports the result."""
    first = calling(rng, held_out)
    result = _result(rng, held_out)
    answer = f"The tool answered: {result}" + ("" if result[-1] in ".!?" else ".")
    report = Exchange(
        "", answer, "The tool has answered, so I report it.", "report", "", first.tools
    )
    return first, {"role": "tool", "content": result}, report


def offered(rng: Random) -> tuple[Tool, ...]:
    """Return tools for a conversation whose question needs none of them."""
    return calling(rng).tools


def made_up_tools(rng: Random) -> tuple[Tool, ...]:
    """Return one to three tools that no plain question asks for."""
    return tuple(_made_up(rng, False)[0] for _ in range(rng.randint(1, 3)))


def _subject(tool: Tool) -> str:
    names: list[tuple[str, ...]] = [tuple(row[0].split()) for row in KNOWN]
    name: str = tool["function"]["name"]
    return next((row[0] for row in names if name in row), name)


def _tool(rng: Random, name: str, description: str, parameters: list[tuple[str, str]]) -> Tool:
    properties = {parameter: {"type": kind} for parameter, kind in parameters}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    if rng.random() < 0.1:
        schema["required"] = []
    function = {"name": name, "description": description, "parameters": schema}
    if rng.random() < 0.15:
        del function["description"]
    return {"type": "function", "function": function}


def _known(rng: Random, held_out: bool) -> tuple[Tool, str, dict[str, Any]]:
    names, descriptions, questions, slots = rng.choice((*KNOWN, *(KNOWN[0],) * 3))
    values = {slot: _value(rng, slot, held_out) for slot in slots}
    parameters: dict[str, str] = {}
    for slot in slots:
        free = [name for name in PARAMETERS[slot] if name not in parameters]
        parameters[rng.choice(free)] = (
            rng.choice(("number", "integer", "number")) if slot in NUMERIC else "string"
        )
    description = rng.choice(descriptions.split(" / ")) + rng.choice(("", "."))
    tool = _tool(rng, rng.choice(names.split()), description, list(parameters.items()))
    return tool, rng.choice(questions.split(" / ")), values


def _made_up(rng: Random, held_out: bool) -> tuple[Tool, str, dict[str, Any]]:
    def word() -> str:
        return invented_word(rng, held_out) if rng.random() < 0.4 else rng.choice(words(held_out))

    verb, noun = rng.choice((rng.choice(VERBS), word())), word()
    name = rng.choice((f"{verb}_{noun}", f"{verb}_{noun}", verb + noun.capitalize(), noun))
    parameters: dict[str, tuple[str, Any]] = {}
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3))):
        is_number = rng.random() < 0.3
        value = rng.randint(0, 10 ** rng.randint(1, 4)) if is_number else _phrase(rng, held_out, 2)
        parameters[word()] = (rng.choice(("integer", "number")) if is_number else "string", value)
    kinds = [(parameter, kind) for parameter, (kind, _) in parameters.items()]
    values = {f"v{index}": value for index, (_, value) in enumerate(parameters.values())}
    told = rng.choice(
        (
            ", ".join(f"{parameter} {{v{index}}}" for index, parameter in enumerate(parameters)),
            " and ".join(f"{parameter} {{v{index}}}" for index, parameter in enumerate(parameters)),
            " and ".join(f"{parameter}={{v{index}}}" for index, parameter in enumerate(parameters)),
        )
    )
    ways = [
        f"Call {name} with {told}",
        f"Use {name} with {told}",
        f"{verb.capitalize()} the {noun} with {told}",
        f"{verb} {noun} {told}",
    ]
    if len(parameters) == 1:
        ways += [
            f"{verb.capitalize()} the {noun} {{v0}}",
            f"{verb.capitalize()} {noun} {{v0}}",
            f"Use {name} for {{v0}}",
            f"Call {name}: {{v0}}",
        ]
    description = rng.choice(
        (
            f"{verb.capitalize()} the {noun}",
            f"{verb.capitalize()} a {noun}",
            f"Can {verb} the {noun}",
        )
    )
    return _tool(rng, name, description, kinds), rng.choice(ways), values


def _phrase(rng: Random, held_out: bool, most_words: int) -> str:
    return " ".join(any_word(rng, held_out) for _ in range(rng.randint(1, most_words)))


def _value(rng: Random, slot: str, held_out: bool) -> str | int:
    if slot in NUMERIC:
        return rng.choice((rng.randint(0, 20), rng.randint(0, 100), rng.randint(0, 9999)))
    listed = {
        "city": CITIES,
        "person": PEOPLE,
        "language": LANGUAGES,
        "unit_a": UNITS,
        "unit_b": UNITS,
    }.get(slot)
    if listed:
        if slot.startswith("unit") or rng.random() < 0.6:
            return drawn(lambda: rng.choice(listed), lambda name: name.lower(), held_out)
        return invented_word(rng, held_out).capitalize()
    if slot == "path":
        return invented_word(rng, held_out) + rng.choice((".txt", ".py", ".md", ".json"))
    return _phrase(rng, held_out, 5)


def _result(rng: Random, held_out: bool) -> str:
    sort = rng.random()
    if sort < 0.3:
        weather = rng.choice(("sunny", "cloudy", "rainy", "windy", "snow", "fog", "clear skies"))
        return rng.choice(
            ("{n} degrees and {w}", "{n} C, {w}", "{w}, {n} degrees", "It is {w}", "{w}")
        ).format(n=rng.randint(-9, 39), w=weather)
    if sort < 0.45:
        return str(rng.randint(0, 10 ** rng.randint(1, 5)))
    if sort < 0.55:
        return f"{rng.randint(0, 23)}:{rng.randint(0, 59):02}"
    if sort < 0.7:
        return json.dumps(
            {
                invented_word(rng, held_out): rng.choice(
                    (rng.randint(0, 99), letter_string(rng, held_out))
                )
                for _ in range(rng.randint(1, 3))
            }
        )
    return _phrase(rng, held_out, 8) + rng.choice(("", "", ".", "!"))


def is_held_out_call(exchange: Exchange) -> bool:
    """Say whether the words among a call's arguments were kept out of training."""
    values = exchange.calls[0]["function"]["arguments"].values()
    return all(
        is_held_out(word.lower())
        for value in values
        if isinstance(value, str)
        for word in value.split()
    )
