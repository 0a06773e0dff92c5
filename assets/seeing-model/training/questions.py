"""Questions about scenes and their one right answer, and talk without a picture. Any thread."""

from __future__ import annotations

from random import Random

from scenes import SHAPES, Scene, Thing

_DESCRIBE = ("What is it?", "What do you see?", "What is in the picture?", "Describe the picture.")
_SHAPE = ("What shape is it?", "Which shape is it?", "What is the shape?", "Name the shape.")
_DIGIT = ("Which digit is it?", "What digit is it?", "Read the digit.", "Which number is it?")
_COUNT = ("How many {}s are there?", "How many {}s do you see?", "Count the {}s.", "How many {}s?")
_COLOR = ("What colour is the {}?", "Which colour is the {}?", "What color is the {}?")
NO_PICTURE = "I see no picture."
_TALK = (
    ("Hello / Hello! / Hi / Hi! / Hey / Hello there / Good morning / Good evening",
     "Hello! Show me a picture."),
    ("Thanks / Thank you / Thanks! / Thank you! / Great / Good / Well done", "You are welcome."),
    ("Bye / Goodbye / Bye! / Goodbye! / Good night", "Goodbye!"),
    ("How are you? / How is it going?", "I am fine, thank you."),
    ("Who are you? / What are you? / What is your name? / Which model are you?",
     "I am Fullstop's demo model that sees."),
    ("What can you do? / Help / What can I ask you? / What do you know?",
     "I name shapes and colours, count them and read digits in pictures."),
)  # fmt: skip


def ask_about(rng: Random, scene: Scene) -> tuple[str, str]:
    """Return a question about a scene, and the answer."""
    things = scene.things
    first, kinds = things[0], sorted({thing.name for thing in things})
    if scene.is_digit:
        return rng.choice(
            [(rng.choice(_DIGIT), first.name)] * 4
            + [(rng.choice(_DESCRIBE), _describe(things))]
            + [(rng.choice(_COLOR).format("digit"), first.color)]
        )
    counted = rng.choice(kinds if rng.random() < 0.85 else SHAPES)
    count = str(sum(thing.name == counted for thing in things))
    if rng.random() < 0.2:
        counted, count = "shape", str(len(things))
    pick = rng.choice(things)
    asked = [(rng.choice(_COUNT).format(counted), count)] * (1 if len(kinds) > 1 else 2)
    asked.append((rng.choice(_DESCRIBE), _describe(things)))
    if len(kinds) == len(things):
        asked += [(rng.choice(_COLOR).format(pick.name), pick.color)] * 2
    if len(things) == 1:
        asked += [(rng.choice(_SHAPE), _describe(things))] * 2
    return rng.choice(asked)


def _describe(things: tuple[Thing, ...]) -> str:
    first = things[0]
    if len(set(things)) == 1 and len(things) > 1:
        return f"{len(things)} {first.color} {first.name}s."
    named = [f"{'an' if one.color == 'orange' else 'a'} {one.color} {one.name}" for one in things]
    text = " and ".join(named) + "."
    return text[0].upper() + text[1:]


def talk(rng: Random) -> tuple[str, str]:
    """Return a message that comes without a picture, and the answer."""
    if rng.random() < 0.6:
        questions, answer = rng.choice(_TALK)
        return rng.choice(questions.split(" / ")), answer
    text = rng.choice(_DESCRIBE + _SHAPE + _DIGIT + _COUNT + _COLOR)
    return text.format(rng.choice((*SHAPES, "shape"))), NO_PICTURE
