"""Which models a server offers: the given ones, those of a folder, or all on this computer."""

from pathlib import Path
from typing import Any

import pytest

from app import paths
from app.exits import CommandError
from app.served_models import offered_models, served_models
from app.settings.serve import ServeOptions
from engine.library.local_models import Origin, look_into
from tests.support.models.adapters import random_adapter
from tests.support.several.offered_models import write_models


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, demo_model_path: Path) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_models(folder, demo_model_path, 3)
    return folder


@pytest.fixture(autouse=True)
def no_other_models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(paths, "find_spec", lambda _: None)  # without the model that sees


def options(**values: Any) -> ServeOptions:
    return ServeOptions(**values)


def names(one: Any) -> list[str] | None:
    return None if one[1] is None else [model.id for model in one[1]]


def test_served_models_single(folder: Path) -> None:
    only = str(folder / "owner--model-3")
    assert names(served_models(options())) is None
    assert served_models(options())[0] == paths.demo_model()
    assert names(served_models(options(model=(only,)))) is None
    assert served_models(options(model=(only,)))[0] == Path(only)


def test_served_models_first_is_default(folder: Path) -> None:
    given = (str(folder / "owner--model-3"), str(folder / "owner--model-2"))
    served = served_models(
        options(model=given, alias=("haiku=owner--model-2",), pin=("owner--model-3",))
    )
    assert served[0] == Path(given[0])
    assert names(served) == ["owner--model-3", "owner--model-2"]
    assert served[1] is not None
    assert [one.aliases for one in served[1]] == [(), ("haiku",)]
    assert [one.is_pinned for one in served[1]] == [True, False]


def test_served_models_of_folder(folder: Path) -> None:
    served = served_models(options(models_folder=(str(folder),)))
    assert names(served) == [
        paths.demo_model().name,
        "owner--model-2",
        "owner--model-3",
        "owner--model-4",
    ]
    assert served[0] == paths.demo_model()


def test_served_models_without_options(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [look_into(one, Origin.FOLDER) for one in sorted(folder.iterdir())]
    demo = look_into(paths.demo_model(), Origin.BUNDLED)
    monkeypatch.setattr(paths, "local_models", lambda: [demo, *found])
    assert len(names(served_models(options())) or []) == 4
    assert names(served_models(options(one_model=True))) is None
    assert names(served_models(options(), is_shared_out=True)) is None


def test_any_name_is_answered_where_only_the_programs_own_models_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = [look_into(one, Origin.BUNDLED) for one in (paths.demo_model(), paths.seeing_model())]
    monkeypatch.setattr(paths, "local_models", lambda: own)
    assert served_models(options()) == (paths.demo_model(), None)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"model": ("a", "b"), "one_model": True}, "--one-model does not allow a choice"),
        ({"models_folder": ("/nowhere",)}, "/nowhere is not a folder"),
        ({"alias": ("haiku",)}, "NAME=MODEL"),
        ({"pin": ("owner--model-9",)}, "the nearest names are owner--model-"),
    ],
)
def test_served_models_option_errors(folder: Path, values: dict[str, Any], said: str) -> None:
    values = {"models_folder": (str(folder),), **values} if "model" not in values else values
    with pytest.raises(CommandError) as told:
        served_models(options(**values))
    assert said in str(told.value)


def test_offered_models_of_same_name(folder: Path, tmp_path: Path) -> None:
    second = tmp_path / "elsewhere" / "owner--model-2"
    second.parent.mkdir()
    second.symlink_to(folder / "owner--model-3")
    found = [look_into(one, Origin.FOLDER) for one in (folder / "owner--model-2", second)]
    assert [one.id for one in offered_models(found)] == [
        "owner--model-2",
        "elsewhere/owner--model-2",
    ]


def test_lora_modules_are_models_of_their_own(folder: Path, tmp_path: Path) -> None:
    base = folder / "owner--model-3"
    poems = random_adapter(base, tmp_path / "poems", 1)
    served = served_models(options(model=(str(base),), lora_modules=(f"verse={poems}",)))
    assert names(served) == ["owner--model-3", "verse"]
    assert served[1] is not None
    verse = served[1][1]
    assert (verse.base, verse.aliases) == (base, ("owner--model-3 + poems",))
    listed = served_models(options(models_folder=(str(folder), str(tmp_path))))
    assert "owner--model-3 + poems" in (names(listed) or [])


@pytest.mark.parametrize(
    ("module", "cause"),
    [
        ("poems", "is not NAME=ADAPTER"),
        ("poems={none}", "has no adapter_config.json"),
        ("owner--model-3={poems}", "another model is named owner--model-3"),
        ("a={damaged}", "adapters.safetensors is damaged"),
    ],
)
def test_wrong_lora_modules_are_refused(
    folder: Path, tmp_path: Path, module: str, cause: str
) -> None:
    base = folder / "owner--model-3"
    made = {name: random_adapter(base, tmp_path / name, 1) for name in ("poems", "damaged")}
    (made["damaged"] / "adapters.safetensors").write_bytes(b"1")
    text = module.format(none=tmp_path, **made)
    with pytest.raises(CommandError, match=cause):
        served_models(options(model=(str(base),), lora_modules=(text,)))


def test_adapters_without_their_base_are_not_offered(folder: Path, tmp_path: Path) -> None:
    base = folder / "owner--model-3"
    random_adapter(base, tmp_path / "a" / "lost", 1, stated="other/model")
    for parent in ("b", "c"):
        random_adapter(base, tmp_path / parent / "adapters", 1)
    served = served_models(options(models_folder=(str(folder), str(tmp_path))))[1] or []
    adapters = {model.id: model.aliases for model in served if model.base is not None}
    # Neither is named by what both are called.
    assert adapters == {"owner--model-3 + adapters": (), "c/owner--model-3 + adapters": ()}
