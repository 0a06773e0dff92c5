"""Model folders that strangers made or that were damaged are described or refused in words."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ModelLoadFailed
from engine.inference.sampling import sampling_defaults
from engine.library.local_models import ModelFolders, Origin, discover, look_into
from engine.library.memory_need import need
from engine.library.model_folder import check_folder
from engine.library.tokenizer_file import vocabulary_key
from engine.library.weights import INDEX, weights_of
from tests.support.attacks import model_attacks

_CASES = 120


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A copy of the demo model that a test may damage."""
    folder = tmp_path / "model"
    folder.mkdir()
    for file in model_attacks.DEMO.iterdir():
        if file.is_file():
            shutil.copyfile(file, folder / file.name)
    return folder


def test_damaged_models_are_read_or_refused_with_a_clear_message(tmp_path: Path) -> None:
    outcomes = set()
    for seed in range(_CASES):
        folder = tmp_path / str(seed)
        folder.mkdir()
        outcomes.add(model_attacks.attack(seed, folder))
        shutil.rmtree(folder)
    assert outcomes == {"read", "refused"}


@pytest.mark.parametrize(
    "weight_map", [["a"], {"w": 5}, {"w": [1]}, {"w": None}, "text"], ids=json.dumps
)
def test_an_index_that_names_no_files_is_refused_and_hides_no_other_model(
    model: Path, weight_map: Any
) -> None:
    (model / INDEX).write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(ModelLoadFailed, match=f"{INDEX} is damaged: weight_map must name a file"):
        check_folder(model)
    found = {one.folder: one for one in discover(ModelFolders(model_attacks.DEMO, (model,)))}
    assert found[model].problem == f"{INDEX} missing"
    assert found[model_attacks.DEMO].problem == ""


def test_names_of_missing_files_are_few_and_cannot_control_a_terminal(model: Path) -> None:
    names = ["a\x1b[2J", "\ud800", *(f"b{number}" for number in range(100))]
    (model / INDEX).write_text(json.dumps({"weight_map": {name: name for name in names}}))
    with pytest.raises(ModelLoadFailed) as caught:
        check_folder(model)
    words = r"a\x1b[2J, b0, b1, b10, b11 and 97 more files missing"
    assert str(caught.value).endswith(words)
    assert look_into(model, Origin.FOLDER).problem == words


@pytest.mark.parametrize("length", [1 << 30, (16 << 20) + 1])
def test_a_header_of_a_million_tensors_is_not_read(model: Path, length: int) -> None:
    path = model / "model.safetensors"
    with path.open("wb") as file:
        file.write(length.to_bytes(8, "little"))
        file.truncate(length + 8)  # takes no room on the disk
    with pytest.raises(ModelLoadFailed, match=f"its header has {length:,} bytes"):
        check_folder(model)
    assert need(model).weights > length  # the size of the file, whose header is not read


def test_headers_of_many_files_are_read_up_to_a_limit(model: Path) -> None:
    header = json.dumps({"w": {"dtype": "F32", "data_offsets": [0, 0]}}).encode()
    padded = header.ljust(16 << 20)
    for number in range(5):
        name = f"model-{number}.safetensors"
        (model / name).write_bytes(len(padded).to_bytes(8, "little") + padded)
    with pytest.raises(ModelLoadFailed, match="the headers of its weights have more than"):
        check_folder(model)


_READ = ("generation_config.json", "tokenizer.json", "vocab.json", "chat_template.jinja")


@pytest.mark.parametrize("name", [*_READ, "merges.txt", "tokenizer.model", "model-2.safetensors"])
@pytest.mark.parametrize("kind", ["pipe", "device", "link to nowhere"])
def test_a_file_that_would_block_or_never_end_is_refused_by_name(
    model: Path, name: str, kind: str
) -> None:
    (model / name).unlink(missing_ok=True)
    match kind:
        case "pipe":
            os.mkfifo(model / name)
        case "device":
            (model / name).symlink_to("/dev/zero")
        case _:
            (model / name).symlink_to(model / "nowhere")
    assert look_into(model, Origin.FOLDER).size_bytes > 0
    need(model)
    vocabulary_key(model)
    with pytest.raises(ModelLoadFailed, match=f"{name} (is damaged|cannot be read)"):
        check_folder(model)


def test_a_text_file_of_gigabytes_is_refused_by_name(model: Path) -> None:
    with (model / "tokenizer.json").open("wb") as file:
        file.truncate(1 << 32)
    with pytest.raises(ModelLoadFailed, match=r"tokenizer\.json is too large"):
        check_folder(model)
    assert vocabulary_key(model) == ""


def test_absurd_sampling_settings_of_a_model_count_as_not_stated(model: Path) -> None:
    odd = '{"temperature": Infinity, "top_k": -Infinity, "top_p": NaN, "min_p": 1' + "0" * 400 + "}"
    (model / "generation_config.json").write_text(odd)
    assert sampling_defaults(model) == {}


@pytest.mark.parametrize(
    "fields",
    [
        {"model_type": ["a"]},
        {"model_type": "gemma4", "text_config": "x"},
        {"quantization": "4", "quantization_config": [4], "num_hidden_layers": -1},
    ],
)
def test_configuration_fields_of_any_type_leave_every_model_in_the_list(
    model: Path, fields: dict[str, Any]
) -> None:
    sound = json.loads((model_attacks.DEMO / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(sound | fields))
    found = {one.folder: one for one in discover(ModelFolders(model_attacks.DEMO, (model,)))}
    assert found.keys() == {model_attacks.DEMO, model}
    assert need(model).total > 0
    weights_of(model)
