"""A model's draft model: chosen in its menu, kept, loaded beside it, and refused in words."""

import shutil
from pathlib import Path

import pytest

from tests.support.models.assistants import write_assistant, write_gemma4
from tests.support.several.draft_models import swap_tokens, write_draft
from tests.ui.driving import eventually
from tests.ui.models.test_models import OpenedModels
from ui.kit.commands import Command
from ui.models.model_library import ModelLibrary


def entries(opened: OpenedModels, name: str) -> dict[str, Command]:
    """Return the draft models that a model's menu offers."""
    commands = opened.commands(name)
    return {label: one for label, one in commands.items() if one.checked is not None}


@pytest.fixture
def folder(tmp_path: Path, demo_model_path: Path) -> Path:
    """A folder of models: one that can guess for the demo model, and one that cannot."""
    write_draft(tmp_path / "mine" / "small", demo_model_path, layers=1)
    swap_tokens(write_draft(tmp_path / "mine" / "foreign", demo_model_path, layers=2), 300, 301)
    return tmp_path / "mine"


async def with_drafts(opened: OpenedModels, folder: Path) -> ModelLibrary:
    library = opened.window.model_library
    library.add_folder(folder)
    await eventually(lambda: opened.has("small") and opened.has("foreign"))
    return library


async def test_a_draft_model_is_chosen_in_the_menu_and_loaded_at_once(
    opened: OpenedModels, folder: Path
) -> None:
    library = await with_drafts(opened, folder)
    opened.click("demo-model")
    await opened.loaded("demo-model")
    offered = entries(opened, "demo-model")
    assert set(offered) == {
        "Keep in Memory",
        "None",
        "small",
    }  # the other one has another vocabulary
    assert offered["None"].checked
    offered["small"].run()
    await eventually(lambda: opened.info is not None and opened.info.draft)
    assert opened.info.draft.id == "small"
    assert ("Draft Model", "small") in opened.pick("demo-model").shown_facts
    await eventually(lambda: entries(opened, "demo-model")["small"].checked)
    [kept] = opened.window.preferences.now.models.choices
    assert [Path(one).name for one in (kept.folder, kept.draft)] == ["demo-model", "small"]
    entries(opened, "demo-model")["None"].run()
    await eventually(
        lambda: (
            opened.state.stage == "ready" and opened.info is not None and opened.info.draft is None
        )
    )
    assert library.choices.draft_of(opened.demo) is None


async def test_an_assistant_is_offered_for_the_model_that_it_was_made_for(
    opened: OpenedModels, tmp_path: Path, demo_model_path: Path
) -> None:
    write_gemma4(tmp_path / "mine" / "gemma-4", "large", demo_model_path)
    write_assistant(tmp_path / "mine" / "gemma-4-assistant", "large")
    opened.window.model_library.add_folder(tmp_path / "mine")
    await eventually(lambda: opened.has("gemma-4") and opened.has("gemma-4-assistant"))
    assert "gemma-4-assistant" not in entries(opened, "demo-model")
    assert set(entries(opened, "gemma-4")) == {"None", "gemma-4-assistant"}
    opened.click("gemma-4")
    await opened.loaded("gemma-4")
    entries(opened, "gemma-4")["gemma-4-assistant"].run()
    await eventually(lambda: opened.info is not None and opened.info.draft)
    assert ("Draft Model", "gemma-4-assistant") in opened.pick("gemma-4").shown_facts


async def test_draft_model_of_another_vocabulary_is_refused_with_remedy(
    opened: OpenedModels, folder: Path
) -> None:
    library = await with_drafts(opened, folder)
    library.choose_draft(opened.demo, folder / "foreign")
    opened.click("demo-model")
    await eventually(lambda: opened.state.stage == "failed")
    words = opened.status("demo-model").reason
    assert "vocabularies differ" in words
    assert "foreign" in words
    assert "demo-model" in words
    assert words.endswith("Choose another one, or None, in the menu of the model.")
    await eventually(lambda: entries(opened, "demo-model")["foreign"].checked)
    entries(opened, "demo-model")["None"].run()
    await eventually(lambda: opened.entry("demo-model").local.draft is None)
    opened.click("demo-model")
    await opened.loaded("demo-model")


async def test_the_estimate_of_a_model_counts_its_draft_model(
    opened: OpenedModels, demo_model_path: Path, folder: Path
) -> None:
    library = await with_drafts(opened, folder)
    alone = opened.entry("demo-model").local.need
    library.choose_draft(demo_model_path, folder / "small")
    await eventually(lambda: opened.entry("demo-model").local.draft is not None)
    both = opened.entry("demo-model").local.need
    assert alone is not None
    assert both is not None
    assert both.weights > alone.weights
    assert both.cache > alone.cache


async def test_a_loaded_model_says_whether_it_drafts_with_a_head_of_its_own(
    opened: OpenedModels, tmp_path: Path, demo_model_path: Path
) -> None:
    broken = tmp_path / "mine" / "broken"
    shutil.copytree(demo_model_path, broken, ignore=shutil.ignore_patterns("training"))
    (broken / "mtp.safetensors").write_bytes(b"damaged")
    opened.window.model_library.add_folder(broken.parent)
    await eventually(lambda: opened.has("broken"))
    for name, words in (
        ("demo-model", "Used"),
        ("broken", "Not used: "),
    ):
        opened.click(name)
        await opened.loaded(name)

        def head(name: str = name) -> str:
            return dict(opened.pick(name).shown_facts).get("Draft Head", "")

        await eventually(lambda told=words, head=head: head().startswith(told))
