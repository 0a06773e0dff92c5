"""Drawn pictures: up to five shapes of a kind, two shapes of two colours, a digit. Any thread."""

from __future__ import annotations

import colorsys
import math
from dataclasses import dataclass
from random import Random

from PIL import Image, ImageDraw, ImageFont

# Hue in degrees, saturation and value, each as the bounds of a shade.
COLORS = {
    "red": ((-8, 8), (0.75, 1.0), (0.75, 1.0)),
    "orange": ((24, 34), (0.85, 1.0), (0.92, 1.0)),
    "yellow": ((50, 60), (0.75, 1.0), (0.9, 1.0)),
    "green": ((100, 145), (0.6, 1.0), (0.45, 0.85)),
    "blue": ((208, 238), (0.7, 1.0), (0.6, 1.0)),
    "purple": ((272, 296), (0.55, 1.0), (0.5, 0.85)),
    "black": ((0, 360), (0.0, 0.2), (0.0, 0.15)),
}
SHAPES = ("circle", "square", "triangle", "star")
MAX_COUNT = 5
_SIDES = (64, 256)
_MAX_ASPECT = 2.0
_SMOOTH = 2  # edges are smoothed by drawing this much larger


@dataclass(frozen=True)
class Thing:
    """A shape or a digit, and its colour."""

    name: str
    color: str


@dataclass(frozen=True)
class Scene:
    """A picture and all things in it, from left to right.

    Attributes:
        centers: where the things are, as shares of width and height.
    """

    image: Image.Image
    things: tuple[Thing, ...]
    centers: tuple[tuple[float, float], ...]

    @property
    def is_digit(self) -> bool:
        return self.things[0].name.isdigit()


def draw_scene(rng: Random, is_held_out: bool = False) -> Scene:
    """Draw a scene; the sides of held-out pictures are those that training never has."""
    size = _draw_size(rng, is_held_out)
    kind = rng.random()
    if kind < 0.3:
        things = [Thing(str(rng.randrange(10)), rng.choice(list(COLORS)))]
    elif kind < 0.5:
        names, colors = rng.sample(SHAPES, 2), rng.sample(list(COLORS), 2)
        things = [Thing(*pair) for pair in zip(names, colors, strict=True)]
    else:
        count = 1 if kind < 0.62 else rng.randint(1, MAX_COUNT)
        things = [Thing(rng.choice(SHAPES), rng.choice(list(COLORS)))] * count
    smooth = _SMOOTH if rng.random() < 0.5 else 1
    canvas = Image.new("RGB", (size[0] * smooth, size[1] * smooth), _draw_background(rng))
    pen = ImageDraw.Draw(canvas)
    shared = [_draw_shade(rng, thing.color) for thing in things[:1]] * len(things)
    shades = shared if len(set(things)) == 1 else [_draw_shade(rng, one.color) for one in things]
    circles = _place(rng, canvas.size, len(things), things[0].name.isdigit())
    for thing, shade, circle in zip(things, shades, circles, strict=True):
        if thing.name.isdigit():
            _draw_digit(rng, pen, thing.name, circle, shade)
        else:
            _draw_shape(rng, pen, thing.name, circle, shade)
    image = canvas if smooth == 1 else canvas.resize(size, Image.Resampling.BOX)
    width, height = canvas.size
    centers = tuple((x / width, y / height) for x, y, _ in circles)
    return Scene(image, tuple(things), centers)


def _draw_size(rng: Random, is_held_out: bool) -> tuple[int, int]:
    low, most = _SIDES
    while True:
        high = rng.choice((most // 2, most))
        width = rng.randint(low, high)
        height = width if rng.random() < 0.4 else rng.randint(low, high)
        is_seen = width % 4 == 0 and height % 4 == 0
        if is_seen is not is_held_out and max(width, height) <= _MAX_ASPECT * min(width, height):
            return width, height


def _draw_background(rng: Random) -> tuple[int, int, int]:
    if rng.random() < 0.5:
        return 255, 255, 255
    return _rgb(rng.random(), rng.uniform(0, 0.08), rng.uniform(0.88, 1.0))


def _draw_shade(rng: Random, color: str) -> tuple[int, int, int]:
    hue, saturation, value = (rng.uniform(*bounds) for bounds in COLORS[color])
    return _rgb(hue / 360 % 1.0, saturation, value)


def _rgb(hue: float, saturation: float, value: float) -> tuple[int, int, int]:
    red, green, blue = colorsys.hsv_to_rgb(hue, saturation, value)
    return round(red * 255), round(green * 255), round(blue * 255)


def _place(
    rng: Random, size: tuple[int, int], count: int, is_digit: bool
) -> list[tuple[float, float, float]]:
    """Return circles (x, y, radius) that do not touch each other, from left to right."""
    width, height = size
    short = min(size)
    area = math.sqrt(width * height)
    low, high = (0.3, 0.48) if is_digit else (0.16, 0.44) if count == 1 else (0.09, 0.2)
    while True:
        placed: list[tuple[float, float, float]] = []
        for _ in range(200):
            radius = min(rng.uniform(low, high) * (short if count == 1 else area), short * 0.48)
            x = rng.uniform(radius, width - radius)
            y = rng.uniform(radius, height - radius)
            gap = 0.03 * area
            if all(math.dist((x, y), one[:2]) > radius + one[2] + gap for one in placed):
                placed.append((x, y, radius))
            if len(placed) == count:
                placed.sort()
                is_ordered = count != 2 or placed[1][0] - placed[0][0] > 0.15 * width
                if is_ordered:
                    return placed
                break


def _draw_shape(
    rng: Random,
    pen: ImageDraw.ImageDraw,
    name: str,
    circle: tuple[float, float, float],
    shade: tuple[int, int, int],
) -> None:
    x, y, radius = circle
    if name == "circle":
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=shade)
        return
    corners = {"square": 4, "triangle": 3, "star": 10}[name]
    turn = math.radians(rng.uniform(-12, 12)) + (math.pi / 4 if corners == 4 else 0)
    points = []
    for index in range(corners):
        far = radius * 0.42 if corners == 10 and index % 2 else radius
        angle = turn + 2 * math.pi * index / corners
        points.append((x + far * math.sin(angle), y - far * math.cos(angle)))
    pen.polygon(points, fill=shade)


def _draw_digit(
    rng: Random,
    pen: ImageDraw.ImageDraw,
    digit: str,
    circle: tuple[float, float, float],
    shade: tuple[int, int, int],
) -> None:
    x, y, radius = circle
    font = ImageFont.load_default(radius * 2.2)
    stroke = rng.choice((0, 0, radius * 0.06, radius * 0.1))
    pen.text((x, y), digit, shade, font, "mm", stroke_width=stroke)
