"""Searching for models on a hub, by the mouse and by keys."""

from datetime import datetime
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from engine.library.hub_models import HubModel
from engine.library.suggestions import SUGGESTIONS
from tests.support.hub import CONFIG, Hub
from tests.ui.driving import eventually
from tests.ui.models.finding.conftest import LARGE, SMALL, spoken
from tests.ui.models.opened import OpenedModels
from ui.kit.dates import format_day
from ui.models.finder import HubResult
from ui.models.model_entries import Entry
from ui.words import THIS_COMPUTER


async def test_a_search_lists_name_size_bits_downloads_day_license_and_fit(
    opened: OpenedModels, site: Hub
) -> None:
    facts = {"downloads": 43_210, "lastModified": "2026-10-05T00:00:00Z"}
    tags = ["mlx", "license:mit"]
    site.add_model("a/Qwen-small", CONFIG, safetensors=SMALL, tags=tags, **facts)
    site.add_model("b/Qwen-large", CONFIG, safetensors=LARGE)
    await opened.search("qwen", "a/Qwen-small", "b/Qwen-large")
    finding = opened.models
    await eventually(lambda: all(one.is_checked for one in finding.finder.results))
    small, large = spoken(finding)
    day = format_day(datetime(2026, 10, 5).timestamp())
    assert small == (
        f"Qwen small, a/Qwen-small, 4-bit · 4.0 MB · a, Fits {THIS_COMPUTER} · 43k downloads · "
        f"{day}, Get"
    )
    assert f"Too large for {THIS_COMPUTER}" in large
    details = opened.pick("a/Qwen-small")
    assert f"Fits {THIS_COMPUTER}: it needs about" in details.fit.text()
    assert details.shown_facts == [
        ("Size", "4.0 MB"),
        ("Quantization", "4-bit"),
        ("Downloads", "43,210"),
        ("Updated", day),
        ("License", "mit"),
    ]
    QTest.keyClick(finding.list, Qt.Key.Key_Down)
    assert "can be used for models" in finding.details.fit.text()


async def test_results_are_sorted_and_narrowed_and_what_fits_stands_first(
    opened: OpenedModels, site: Hub
) -> None:
    quantized = {**CONFIG, "quantization": {"bits": 8}}
    days = {"lastModified": "2026-10-05T00:00:00Z"}
    site.add_model("a/Qwen-large", CONFIG, safetensors=LARGE, downloads=900, **days)
    site.add_model("b/Qwen-old", CONFIG, safetensors=SMALL, downloads=500)
    site.add_model("c/Qwen-8bit", quantized, safetensors=SMALL, downloads=100, **days)
    await opened.search("qwen", "b/Qwen-old", "c/Qwen-8bit", "a/Qwen-large")
    finding = opened.models

    def names() -> list[str]:
        return [result.name[0] for result in finding.finder.results]

    await eventually(lambda: all(one.is_checked for one in finding.finder.results))
    assert names() == ["b", "c", "a"]
    finding.order.choose("downloads")
    assert names() == ["a", "b", "c"]
    finding.order.choose("newest")
    assert names() == ["a", "c", "b"]
    finding.order.choose("smallest")
    assert names()[-1] == "a"
    assert [finding.bits.itemText(n) for n in range(finding.bits.count())] == [
        "Any Quantization",
        "4-bit",
        "8-bit",
    ]
    finding.bits.choose("8")
    assert names() == ["c"]
    assert opened.entry("Hugging Face").note == "1 of 3 models"
    finding.bits.choose("")
    finding.fits_only.click()
    assert set(names()) == {"b", "c"}
    assert opened.entry("Hugging Face").note == "2 of 3 models"
    await opened.search("nothing-like-it")
    assert "No MLX model on Hugging Face" in finding.empty.detail.text()
    assert not finding.list.isVisible()
    finding.clear.click()
    assert finding.field.text() == ""
    await eventually(finding.list.isVisible)
    finding.field.setText("large")
    await eventually(lambda: finding.empty.detail.text() == "No results match the filters.")
    assert finding.clear.text() == "Clear Filters"
    finding.clear.click()
    assert names() == ["a"]
    assert finding.list.isVisible()


async def test_a_row_without_size_and_license_has_its_owner(opened: OpenedModels) -> None:
    entry = Entry("a/Qwen", hub=HubResult(HubModel("a/Qwen")))
    assert opened.models.entries.state(entry).text == "a"


async def test_typing_alone_searches_and_the_newest_text_counts(
    opened: OpenedModels, site: Hub
) -> None:
    site.add_model("a/first", CONFIG, safetensors=SMALL)
    site.add_model("a/second", CONFIG, safetensors=SMALL)
    opened.models.show_finding()
    await eventually(lambda: opened.models.finder.stage != "asking")
    site.answers.clear()
    opened.models.finder.search("first")
    QTest.keyClicks(opened.models.field, "second")
    await eventually(lambda: opened.models.finder.query == "second")
    site.answers.set()
    await opened.found("a/second")


async def test_an_empty_field_suggests_models_that_fit_and_asks_the_hub_about_the_chosen_one(
    opened: OpenedModels, site: Hub
) -> None:
    for one in SUGGESTIONS:
        site.add_model(one.name, CONFIG, downloads=7)
        site.files[one.name]["model.safetensors"] = b"w" * 1_230_000
    rows = spoken(opened.models)
    assert len(rows) == 6
    assert not any("Too large" in row for row in rows)
    assert site.requests == []
    result = opened.models.finder.results[0]
    assert result.purpose in rows[0].casefold()
    details = opened.pick(result.name)
    assert details.purpose.text().casefold() == result.purpose.casefold()
    await eventually(lambda: {("Size", "1.2 MB"), ("Downloads", "7")} < {*details.shown_facts})


async def test_more_models_are_shown_on_request_and_the_chosen_one_stays(
    opened: OpenedModels, site: Hub
) -> None:
    site.most_listed = 7
    for number in range(50):
        site.add_model(f"a/model-{number:02}", CONFIG, safetensors=SMALL, downloads=100 - number)
    names = [f"a/model-{number:02}" for number in range(50)]
    await opened.search("model", *names[:20])
    finding = opened.models
    opened.pick(names[19])
    finding.more.click()
    await opened.found(*names[:40])
    assert finding.details.entry is not None
    assert finding.details.entry.name == names[19]
    finding.more.click()
    await opened.found(*names)
    assert not finding.more.isVisible()


async def test_repository_is_found_by_name_or_url(opened: OpenedModels, site: Hub) -> None:
    site.add_model("makers/exact", CONFIG, tags=[])
    site.files["makers/exact"]["model.safetensors"] = b"w" * 2_000_000
    await opened.search("https://huggingface.co/makers/exact/tree/main", "makers/exact")
    details = opened.models.details
    assert opened.pick("makers/exact").primary.text() == "Get"
    await eventually(lambda: ("Size", "2.0 MB") in details.shown_facts)
    await opened.search("makers/none")
    assert "no repository makers/none" in opened.models.problem.text()


async def test_a_model_is_found_downloaded_and_left_with_keys_alone(
    opened: OpenedModels, site: Hub, demo_model_path: Path
) -> None:
    site.add_folder("makers/demo-model", demo_model_path)
    site.facts["makers/demo-model"] = {"tags": ["mlx"], "safetensors": SMALL}
    site.add_model("makers/demo-other", CONFIG, safetensors=SMALL, downloads=9)
    models = opened.models
    models.show_finding()
    QTest.keyClicks(models.field, "demo")
    await opened.found("makers/demo-other", "makers/demo-model")
    QTest.keyClick(models.field, Qt.Key.Key_Down)
    names = [models.list.current]
    for _ in range(2):
        QTest.keyClick(models.list, Qt.Key.Key_Down)
        names.append(models.list.current)
    # The heading between the models of this computer and those of the hub is skipped.
    assert [entry and entry.name for entry in names] == [
        "demo-model",
        "makers/demo-other",
        "makers/demo-model",
    ]
    QTest.keyClick(models.list, Qt.Key.Key_Return)
    await opened.loaded("makers/demo-model")
    models.show_finding()
    assert "is ready" in models.question.caption.text()
    QTest.keyClick(models.field, Qt.Key.Key_Escape)
    assert models.question.isHidden()
    QTest.keyClick(models.field, Qt.Key.Key_Escape)
    assert models.field.text() == ""
    QTest.keyClick(models.field, Qt.Key.Key_Escape)
    assert models.isHidden()
