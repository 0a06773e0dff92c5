"""A tokenizer whose rules let texts grow without bounds is refused before a library reads it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ModelLoadFailed
from engine.library.model_folder import check_folder
from engine.library.tokenizer_file import check_tokenizer


def replacing(old: str, new: str, kind: str = "String") -> dict[str, Any]:
    return {"type": "Replace", "pattern": {kind: old}, "content": new}


def sequence(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "normalizers": list(parts)}


@pytest.mark.parametrize(
    "fields",
    [
        {"normalizer": replacing("a", "a" * 1_000_000)},
        {"normalizer": replacing("", "abc" * 100)},
        {"normalizer": replacing(".*", "abc" * 100, "Regex")},
        {"normalizer": sequence(*[replacing("a", "aa")] * 30)},
        {"normalizer": sequence(*[{"type": "Prepend", "prepend": "a"}] * 20)},
        {"normalizer": sequence(sequence(replacing("a", "a" * 99)), replacing("a", "a" * 99))},
        {"decoder": {"type": "Sequence", "decoders": [replacing("a", "b" * 1000)]}},
        {"post_processor": {"single": [{"SpecialToken": {"id": "x", "type_id": 0}}] * 1000}},
    ],
)
def test_exploding_tokenizer_is_refused(
    tmp_path: Path, demo_model_path: Path, fields: dict[str, Any]
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(demo_model_path, folder, ignore=shutil.ignore_patterns("*.py"))
    file = folder / "tokenizer.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))
    with pytest.raises(ModelLoadFailed, match=r"model/tokenizer\.json is damaged: it"):
        check_folder(folder)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"normalizer": None, "decoder": None, "post_processor": None},
        {"normalizer": sequence({"type": "Prepend", "prepend": "▁"}, replacing(" ", "▁"))},
        {"normalizer": sequence({"type": "NFKC"}, replacing(" {2,}", " ", "Regex"))},
        {"decoder": {"type": "Sequence", "decoders": [replacing("▁", " "), {"type": "Fuse"}]}},
    ],
)
def test_usual_tokenizer_is_taken(tmp_path: Path, fields: dict[str, Any]) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps(fields))
    check_tokenizer(tmp_path)


@pytest.mark.parametrize("text", ["[]", "{", "[" * 100_000, '{"normalizer": {"type": "Replace"}}'])
def test_damaged_tokenizer_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(ModelLoadFailed, match="is damaged: "):
        check_tokenizer(tmp_path)
