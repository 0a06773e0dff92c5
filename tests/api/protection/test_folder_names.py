"""Clients are told what failed by its name; the folders of this computer are not their concern."""

import itertools
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from api.server.routes import ROUTES
from engine.engine import Engine
from engine.files.causes import without_folders
from engine.inference.loader import load_model
from engine.scheduling.model_list import OfferedModel
from engine.values.limits import Limits
from tests.api.questions import PATHS, question
from tests.support.several.draft_models import write_draft

SECRET = "Olga's unmistakable shelf"
BODIES: dict[str, dict[str, Any]] = {
    **{path: question(path, "Hi", 2) for path in PATHS},
    "/v1/embeddings": {"input": "Hi"},
    "/api/embed": {"input": "Hi"},
    "/tokenize": {"prompt": "Hi"},
    "/api/show": {},
}


def _config(folder: Path, **values: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_bytes()), **values}))


INDEX = "model.safetensors.index.json"
DAMAGES: dict[str, Callable[[Path], object]] = {
    "gone": shutil.rmtree,
    "no-config": lambda folder: (folder / "config.json").unlink(),
    "broken-config": lambda folder: (folder / "config.json").write_text("{"),
    "no-weights": lambda folder: [one.unlink() for one in folder.glob("*.safetensors")],
    "broken-weights": lambda folder: [
        one.write_bytes(b"\x02" + bytes(7) + b"{]") for one in folder.glob("*.safetensors")
    ],
    "broken-index": lambda folder: (folder / INDEX).write_text('{"weight_map": [1]}'),
    "other-shapes": lambda folder: _config(folder, hidden_size=8),
    "broken-tokenizer": lambda folder: (folder / "tokenizer.json").write_text("{}"),
    "unknown-kind": lambda folder: _config(folder, model_type="unheard_of"),
    "own-code": lambda folder: _config(folder, model_file="mine.py"),
}


def _raised(folder: Path, **_: Any) -> Any:
    raise OSError(2, "No such file or directory", str(folder / "deep" / "weights"))


def _said(folder: Path, **_: Any) -> Any:
    raise RuntimeError(f"[load] Failed to open file {folder}/deep/weights.")


RAISED = {"raised": _raised, "said": _said}


@pytest.fixture
def damaged(tmp_path: Path, demo_model_path: Path) -> Iterator[Engine]:
    home = tmp_path / SECRET
    whole = write_draft(home / "whole", demo_model_path, 1)
    for name, damage in DAMAGES.items():
        shutil.copytree(whole, home / name)
        damage(home / name)

    def load(folder: Path, **options: Any) -> Any:
        return RAISED.get(folder.name, load_model)(folder, **options)

    engine = Engine(Limits(), loader=load)
    engine.offer([OfferedModel(name, home / name) for name in ("whole", *DAMAGES, *RAISED)])
    with closing(engine):
        yield engine


def test_no_answer_about_a_model_that_cannot_be_loaded_names_its_folder(
    serve: Any, damaged: Engine
) -> None:
    site = serve(damaged)
    asked = itertools.cycle(BODIES.items())
    looked = [one.path for one in ROUTES if one.method == "GET" and "{" not in one.path]
    shown: list[str] = []
    for name in (*DAMAGES, *RAISED):
        # The next damage is told by the other dialects.
        told = [
            site.send("POST", path, body | {"model": name})
            for path, body in itertools.islice(asked, 2)
        ]
        assert any(one.status >= 400 for one in told), name
        told += [site.send("GET", path) for path in ("/health", f"/v1/models/{name}")]
        shown += [f"{name}: {text}" for text in map(_text, told) if _is_told(text)]
    shown += [path for path in looked if _is_told(_text(site.send("GET", path)))]
    assert shown == []


def _text(reply: Any) -> str:
    return f"{reply.body.decode()} {reply.headers}"


def _is_told(text: str) -> bool:
    return any(part in text for part in SECRET.split()[:2])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("gone: '/home/A B/c'", "gone: 'c'"),
        ('gone: "/home/Olga\'s/c/"', 'gone: "c"'),
        ("Failed to open file /a/b/c.safetensors.", "Failed to open file c.safetensors."),
        ("cannot open /my models/one/config.json", "cannot open one/config.json"),
        ("see https://example.org/a/b/c", "see https://example.org/a/b/c"),
        (
            "a/b, 1/2, application/json and </a/b> stay",
            "a/b, 1/2, application/json and </a/b> stay",
        ),
        ("'it's' / 'that'", "'it's' / 'that'"),
    ],
)
def test_paths_in_the_text_of_a_library_become_names(text: str, told: str) -> None:
    assert without_folders(text, Path("/my models/one")) == told
