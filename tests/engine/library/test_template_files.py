"""Chat templates of model folders and of files."""

import json
from pathlib import Path

import jinja2
import pytest

from engine.errors import InvalidTemplate
from engine.library import template_files
from engine.library.template_files import chat_template, read_template

_NAMED = [
    {"name": "default", "template": "\nplain {{ x }}\n"},
    {"name": "tool_use", "template": "\n {{ tools }}\n"},
]


def test_named_templates_are_joined_without_a_change_of_their_text(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": _NAMED}))
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    joined = environment.from_string(chat_template(tmp_path))
    default, tools = (environment.from_string(one["template"]) for one in _NAMED)
    assert joined.render(x=1) == default.render(x=1)
    assert joined.render(tools="T") == tools.render(tools="T")


def test_files_of_a_folder_precede_the_tokenizers_settings(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text('{"chat_template": "old"}')
    assert chat_template(tmp_path) == "old"
    (tmp_path / "chat_template.jinja").write_text("new")
    assert chat_template(tmp_path) == "new"
    (tmp_path / "additional_chat_templates").mkdir()
    (tmp_path / "additional_chat_templates" / "tool_use.jinja").write_text("tools")
    assert chat_template(tmp_path) == "{% if tools +%}tools{%+ else +%}new{%+ endif +%}"


def test_tokenizers_settings_are_parsed_once_until_they_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, parsed = tmp_path / "tokenizer_config.json", []
    read = template_files.read_json
    monkeypatch.setattr(template_files, "read_json", lambda path: parsed.append(path) or read(path))
    config.write_text('{"chat_template": "first"}')
    assert [chat_template(tmp_path) for _ in range(3)] == ["first"] * 3
    assert parsed == [config]
    config.write_text('{"chat_template": "other one"}')
    assert chat_template(tmp_path) == "other one"


@pytest.mark.parametrize(
    ("name", "content", "template"),
    [
        ("t.jinja", b"\xef\xbb\xbf{{ x }}\n", "{{ x }}\n"),
        ("chat_template.json", b'{"chat_template": "{{ x }}"}', "{{ x }}"),
        (
            "tokenizer_config.json",
            json.dumps({"chat_template": _NAMED[1:]}).encode(),
            "\n {{ tools }}\n",
        ),
    ],
)
def test_template_is_read_from_jinja_and_json(
    tmp_path: Path, name: str, content: bytes, template: str
) -> None:
    (tmp_path / name).write_bytes(content)
    assert read_template(tmp_path / name) == template


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("t.jinja", b"\xff", "it is not UTF-8 text"),
        ("t.json", b"[", "it is damaged"),
        ("t.json", b"[]", 'it has no "chat_template"'),
        ("t.jinja", b"a" * (1 << 21), "it is too large"),
        ("none.jinja", None, "it cannot be read: "),
    ],
)
def test_unreadable_template_file_names_the_reason(
    tmp_path: Path, name: str, content: bytes | None, reason: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidTemplate, match=reason):
        read_template(tmp_path / name)
