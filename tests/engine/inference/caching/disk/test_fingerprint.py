"""A model's fingerprint changes with everything that a cache depends on."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.inference.cache import disk
from engine.inference.cache.disk import fingerprint_of, stamps_of

KINDS = ("KVCache",) * 4


@pytest.fixture
def model(tmp_path: Path, demo_model_path: Path) -> Path:
    return Path(shutil.copytree(demo_model_path, tmp_path / "model"))


def print_of(folder: Path, kinds: tuple[str, ...] = KINDS, device: str = "cpu") -> str | None:
    return fingerprint_of(folder, stamps_of(folder), kinds, device)


def change_config(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["rope_theta"] = 12345.0
    (folder / "config.json").write_text(json.dumps(config))


def change_template(folder: Path) -> None:
    path = folder / "chat_template.jinja"
    path.write_text(path.read_text() + "\n")


def touch_weights(folder: Path) -> None:
    os.utime(folder / "model.safetensors", (1, 1))


@pytest.mark.parametrize(
    "change",
    [change_config, change_template, touch_weights],
)
def test_a_change_of_the_model_changes_its_fingerprint(
    model: Path, change: Callable[[Path], None]
) -> None:
    before = print_of(model)
    change(model)
    after = print_of(model)
    assert before is not None
    assert after is not None
    assert before != after


def test_the_fingerprint_of_the_same_model_stays_the_same(model: Path) -> None:
    (model / "README.md").write_text("a note")
    (model / ".hidden.json").write_text("{}")
    before = print_of(model)
    (model / "README.md").write_text("another note")
    (model / ".hidden.json").write_text("[]")
    assert print_of(model) == before


def test_kinds_of_caches_devices_and_versions_have_fingerprints_of_their_own(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {print_of(model), print_of(model, ("RotatingKVCache",)), print_of(model, device="gpu")}
    for package in ("mlx", "mlx-lm"):
        monkeypatch.setattr(
            disk, "version", lambda name, package=package: "9" if name == package else "1"
        )
        seen.add(print_of(model))
    monkeypatch.undo()
    monkeypatch.setattr(disk, "FORMAT", 999)
    seen.add(print_of(model))
    assert len(seen) == 6


def test_fingerprint_of_a_seeing_model_covers_the_libraries_of_its_tower(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prints(newer: str) -> tuple[str | None, str | None]:
        monkeypatch.setattr(disk, "version", lambda name: "9" if name == newer else "1")
        stamps = stamps_of(model)
        seeing = fingerprint_of(model, stamps, KINDS, "cpu", can_see=True)
        return print_of(model), seeing

    text, seeing = prints("")
    for package in ("mlx-vlm", "transformers"):
        other_text, other_seeing = prints(package)
        assert other_text == text
        assert other_seeing != seeing


def test_a_model_whose_files_changed_since_it_was_loaded_has_none(model: Path) -> None:
    stamps = stamps_of(model)
    change_config(model)
    assert fingerprint_of(model, stamps, KINDS, "cpu") is None


def test_fingerprint_covers_adapter_and_base(model: Path, tmp_path: Path) -> None:
    adapters = [tmp_path / name for name in ("one", "two")]
    for folder in adapters:
        folder.mkdir()
        (folder / "adapters.safetensors").write_bytes(b"1")
        os.utime(folder / "adapters.safetensors", (1, 1))

    def prints() -> list[str | None]:
        return [
            fingerprint_of(folder, stamps_of(folder, model), KINDS, "cpu", base=model)
            for folder in adapters
        ]

    seen = [print_of(model), *prints()]
    os.utime(adapters[0] / "adapters.safetensors", (2, 2))
    seen.append(prints()[0])
    touch_weights(model)
    seen += prints()
    assert None not in seen
    assert len(set(seen)) == 6
