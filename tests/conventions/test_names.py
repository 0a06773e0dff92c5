"""One word, one thing: no public class of the product has the name of another one."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("engine", "api", "ui", "app")


def places_by_name() -> dict[str, list[str]]:
    """Return where each public class name is defined, nested classes left out."""
    places = defaultdict(list)
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(str(path.relative_to(ROOT)))
    return places


def test_no_two_public_classes_have_the_same_name() -> None:
    shared = {name: places for name, places in places_by_name().items() if len(places) > 1}
    assert not shared, f"choose another name for one of each: {shared}"


def test_classes_are_found_in_every_package() -> None:
    tops = {place.partition("/")[0] for places in places_by_name().values() for place in places}
    assert tops == set(PACKAGES)
