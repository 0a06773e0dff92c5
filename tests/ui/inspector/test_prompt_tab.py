"""The tab of the inspector that shows the prompt."""

from dataclasses import replace

from engine.values.events import CacheMiss, PromptDifference, PromptPart
from tests.ui.driving import eventually
from tests.ui.inspector.inspecting import COUNT, ask
from ui.inspector.inspector_window import InspectorWindow
from ui.inspector.request_tabs import PromptTab
from ui.window.main_window import MainWindow


async def test_the_prompt_is_shown_with_its_cached_part(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    await ask(window, COUNT, "6")
    inspector.tabs.setCurrentWidget(inspector.tab(PromptTab))
    await eventually(lambda: COUNT in inspector.tab(PromptTab).page.toPlainText())
    assert inspector.tab(PromptTab).page.toPlainText().startswith("<|im_start|>user")
    assert "tokens" in inspector.tab(PromptTab).note.text()
    await ask(window, COUNT, "6")
    run = window.workspace.current.conversation.messages[-1].run
    assert run.finished.usage.cached_tokens > 0
    await eventually(lambda: "came from the cache" in inspector.tab(PromptTab).note.text())
    for from_disk, place in ((0, "in memory"), (run.finished.usage.cached_tokens, "on disk")):
        usage = replace(run.finished.usage, disk_tokens=from_disk)
        run.finished = replace(run.finished, usage=usage)
        inspector.tab(PromptTab)._fill()
        said = inspector.tab(PromptTab).note.text()
        assert f"the first {usage.cached_tokens} came from the cache {place}." in said
    for miss in CacheMiss:
        for cached, amount in ((0, "Nothing"), (3, "Nothing more")):
            usage = replace(run.finished.usage, cached_tokens=cached, cache_miss=miss)
            run.finished = replace(run.finished, usage=usage)
            inspector.tab(PromptTab)._fill()
            said = inspector.tab(PromptTab).note.text()
            assert f". {amount} came from the cache: " in said
    difference = PromptDifference(12, PromptPart.MESSAGE, "of now", "of then", 1800, 7, "user")
    usage = replace(run.finished.usage, prompt_difference=difference)
    run.finished = replace(run.finished, usage=usage)
    inspector.tab(PromptTab)._fill()
    said = inspector.tab(PromptTab).note.text()
    assert "1,800 tokens read again: message 7 (user) differs" in said
    assert "“of now” here, “of then” before" in said
