"""Models are searched on a hub on this machine that speaks the API of the real one."""

import json
import threading
import time
from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest

from engine.library import hub as hub_client
from engine.library.hub import Hub, HubCancelled, HubFailed
from engine.library.hub_models import HubModel, card, look_up_all, search, with_needs
from tests.support import hub as support
from tests.support.hub import COMMIT
from tests.support.hub import hub as served_hub

CONFIG: dict[str, Any] = {
    "model_type": "qwen3",
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 40960,
    "quantization": {"bits": 4, "group_size": 64},
}
SAFETENSORS = {"parameters": {"U32": 1_000_000, "BF16": 250_000}, "total": 1_250_000}


@pytest.fixture
def site() -> Iterator[support.Hub]:
    with served_hub() as served:
        yield served


def names(models: tuple[HubModel, ...]) -> list[str]:
    return [model.name for model in models]


def test_a_search_reports_size_bits_downloads_day_license_and_gate(site: support.Hub) -> None:
    site.add_model(
        "makers/Qwen-4bit",
        CONFIG,
        safetensors=SAFETENSORS,
        downloads=1234,
        lastModified="2026-03-04T05:06:07.000Z",
        tags=["mlx", "license:apache-2.0", "en"],
        config={"quantization_config": {"bits": 4}},
    )
    site.gated.add("makers/Qwen-4bit")

    [[model], _] = search(Hub(site.url), "qwen")
    assert model == HubModel(
        "makers/Qwen-4bit",
        size_bytes=4_500_000,
        bits=4,
        downloads=1234,
        updated=date(2026, 3, 4),
        license="apache-2.0",
        is_gated=True,
        commit=COMMIT,
    )


def test_search_lists_chat_models_by_downloads(site: support.Hub) -> None:
    site.add_model("a/Qwen-small", CONFIG, downloads=5)
    site.add_model("b/qwen-large", CONFIG, downloads=50)
    site.add_model("c/Llama", CONFIG, downloads=500)
    site.add_model("d/Qwen-gguf", CONFIG, tags=["gguf"])
    site.add_model("e/Qwen-speech", CONFIG, pipeline_tag="text-to-speech")
    site.add_model("f/Qwen-gone", CONFIG, disabled=True)

    assert names(search(Hub(site.url), " Qwen ")[0]) == ["b/qwen-large", "a/Qwen-small"]
    assert names(search(Hub(site.url), "")[0])[0] == "c/Llama"


def test_every_word_of_a_search_is_in_the_names_found(site: support.Hub) -> None:
    for name in ("a/Qwen3-4bit", "a/Qwen3-8bit", "a/Llama-4bit"):
        site.add_model(name, CONFIG)
    site.most_listed = 1

    assert names(search(Hub(site.url), "4BIT qwen3")[0]) == ["a/Qwen3-4bit"]


def test_search_follows_pages_to_its_limit(site: support.Hub) -> None:
    for number in range(30):
        site.add_model(f"makers/model-{number:02}", CONFIG, downloads=100 - number)
    site.most_listed = 4

    ten, has_more = search(Hub(site.url), "model", 10)
    assert names(ten) == [f"makers/model-{number:02}" for number in range(10)]
    assert has_more
    assert len(site.lists) == 3
    every, has_more = search(Hub(site.url), "model", 30)
    assert (len(every), has_more) == (30, False)


def test_a_list_that_goes_on_at_another_address_is_not_followed(site: support.Hub) -> None:
    for number in range(3):
        site.add_model(f"makers/model-{number}", CONFIG)
    site.most_listed = 1
    here = Hub(site.url)
    site.url = "http://127.0.0.2:1"  # what the Link header names from now on

    with pytest.raises(HubFailed, match="another address"):
        search(here, "model", 3)


def test_results_get_their_needs_from_their_configurations(site: support.Hub) -> None:
    for number in range(12):
        site.add_model(f"makers/model-{number}", CONFIG, safetensors=SAFETENSORS)

    models = with_needs(Hub(site.url), search(Hub(site.url), "model")[0])
    token_bytes = 2 * 2 * 2 * 8 * 2
    assert len(models) == 12
    for model in models:
        assert model.need is not None
        assert (model.need.weights, model.need.context) == (4_500_000, 8192)
        assert model.need.cache == 8192 * token_bytes
        assert model.bits == 4


@pytest.mark.parametrize(
    "facts",
    [
        {"downloads": "many", "lastModified": "yesterday", "tags": "mlx", "config": []},
        {"safetensors": {"parameters": {"U32": -1}}},
        {"safetensors": [], "sha": 5, "lastModified": None},
        {"sha": "../../elsewhere"},
    ],
    ids=repr,
)
def test_facts_that_make_no_sense_are_left_out(site: support.Hub, facts: dict[str, Any]) -> None:
    site.add_model("makers/odd", CONFIG, **facts)
    site.raw = json.dumps([{"id": "makers/odd", **facts}, {"id": "../etc"}, {"id": 5}, 7]).encode()

    [[model], _] = search(Hub(site.url), "")
    assert model == HubModel("makers/odd")


@pytest.mark.parametrize(
    ("status", "said"),
    [(503, "not available .* .503"), (429, "asked too often.*hf auth login"), (403, "403")],
)
def test_a_refusal_of_the_hub_is_reported_with_its_status(
    site: support.Hub, status: int, said: str
) -> None:
    site.status = status
    with pytest.raises(HubFailed, match=said):
        search(Hub(site.url), "model")


def test_a_hub_that_cannot_be_reached_is_reported_without_trying_again() -> None:
    with pytest.raises(HubFailed, match=r"cannot be reached: .*; check the connection"):
        search(Hub("http://127.0.0.1:9"), "model")


def test_a_hub_that_does_not_answer_is_given_up_after_a_while(
    site: support.Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_client, "_LIMIT_S", 0.3)
    site.answers.clear()
    with pytest.raises(HubFailed, match="did not answer within"):
        search(Hub(site.url), "model")


def test_a_search_ends_when_it_is_cancelled_whatever_the_hub_does(site: support.Hub) -> None:
    site.answers.clear()
    gives_up = threading.Event()

    def cancel() -> None:
        while not site.requests:
            time.sleep(0.01)
        gives_up.set()

    threading.Thread(target=cancel).start()
    with pytest.raises(HubCancelled):
        search(Hub(site.url, gives_up), "model")


def test_several_models_are_looked_up_at_once_and_missing_ones_left_out(site: support.Hub) -> None:
    site.add_model("makers/one", CONFIG, safetensors=SAFETENSORS)

    one, missing = look_up_all(Hub(site.url), ("makers/one", "makers/none"))
    assert one is not None
    assert (one.name, missing) == ("makers/one", None)
    with pytest.raises(HubFailed, match="there is no repository makers/none"):
        look_up_all(Hub(site.url), ("makers/none",))


def test_a_card_comes_without_its_front_matter(site: support.Hub) -> None:
    text = "---\nlicense: mit\ntags:\n- mlx\n---\n# Title\n\n---\nText é\n"
    site.files["makers/one"] = {"README.md": text.encode()}
    assert card(Hub(site.url), "makers/one") == "# Title\n\n---\nText é\n"
    with pytest.raises(HubFailed, match="there is no repository makers/none"):
        card(Hub(site.url), "makers/none")
