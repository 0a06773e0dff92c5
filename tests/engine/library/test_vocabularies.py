"""Two models on disk have the same vocabulary, or not: read without loading them."""

import json
import shutil
from pathlib import Path

import pytest

from engine.library.tokenizer_file import vocabulary_key
from tests.support.several.draft_models import add_token, swap_tokens


@pytest.fixture
def copy(tmp_path: Path, demo_model_path: Path) -> Path:
    (tmp_path / "copy").mkdir()
    shutil.copy(demo_model_path / "tokenizer.json", tmp_path / "copy" / "tokenizer.json")
    return tmp_path / "copy"


def test_files_that_differ_in_form_only_have_the_same_vocabulary(
    copy: Path, demo_model_path: Path
) -> None:
    own = vocabulary_key(demo_model_path)
    assert own
    assert vocabulary_key(copy) == own
    file = copy / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    tokenizer["truncation"] = {"max_length": 10}
    for indent in (None, 4):
        file.write_text(json.dumps(tokenizer, indent=indent, ensure_ascii=False))
        assert vocabulary_key(copy) == own


def test_another_token_or_another_order_is_another_vocabulary(copy: Path) -> None:
    file = copy / "tokenizer.json"
    # Tokens with the names of the file's own fields, as many real vocabularies have.
    named = {"model": 9001, "vocab": 9002, "merges": 9003}
    tokenizer = json.loads(file.read_text())
    tokenizer["model"]["vocab"] |= named
    file.write_text(json.dumps(tokenizer, ensure_ascii=False))
    own = vocabulary_key(copy)
    assert own
    swap_tokens(copy, 300, 301)
    swapped = vocabulary_key(copy)
    assert swapped != own
    swap_tokens(copy, 300, 301)
    assert vocabulary_key(copy) == own
    add_token(copy, "<more>")
    assert vocabulary_key(copy) not in (own, swapped)


@pytest.mark.parametrize("content", ["", "{}", '{"model": {}}', "\x00" * 100])
def test_a_file_that_cannot_be_read_has_no_known_vocabulary(copy: Path, content: str) -> None:
    (copy / "tokenizer.json").write_text(content)
    assert vocabulary_key(copy) == ""
    (copy / "tokenizer.json").unlink()
    assert vocabulary_key(copy) == ""
