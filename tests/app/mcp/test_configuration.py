"""The ``mcpServers`` JSON: the forms of other apps are read, and faults are named."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from app.mcp.configuration import (
    BadConfiguration,
    ReadServers,
    ServersFile,
    claude_desktop_file,
    servers_from,
    text_of,
)
from app.settings.keychain import ToolSecrets
from tests.app.mcp.served import Served, no_keychain
from tests.support.kept import nothing_is_set_aside
from ui.records.tools import NamedValue, ServerStage, ToolServerConfig, ToolsRefused

PROGRAM = '"command": "npx", "args": ["-y", "some-server"]'


def test_a_program_and_an_address_are_read() -> None:
    text = """{"mcpServers": {
      "files": {"command": "npx", "args": ["-y", "s"], "env": {"LEVEL": "1"}, "cwd": "/tmp"},
      "web": {"type": "http", "url": "https://e.org/mcp", "headers": {"X-Team": "a"},
              "disabled": true}}}"""
    [older] = servers_from('{"a": {"type": "sse", "url": "https://e.org/sse"}}').servers
    assert older == ToolServerConfig("a", url="https://e.org/sse", is_sse=True, is_on=True)
    assert servers_from(text_of([older])).servers == [older]
    files, web = servers_from(text).servers
    assert files == ToolServerConfig(
        "files", "npx", ("-y", "s"), (NamedValue("LEVEL", "1"),), "/tmp", is_on=True
    )
    assert web == ToolServerConfig(
        "web", url="https://e.org/mcp", headers=(NamedValue("X-Team", "a"),), is_on=False
    )


@pytest.mark.parametrize(
    "text",
    [
        f'{{"mcpServers": {{"a": {{{PROGRAM}}}}}}}',
        f'{{"servers": {{"a": {{"type": "stdio", {PROGRAM}}}}}}}',
        f'{{"a": {{{PROGRAM}}}}}',
        f'"a": {{{PROGRAM}}},',
        f'\ufeff  {{"mcpServers": {{"a": {{{PROGRAM}}}}}}}\n',
        f'// mine\n{{"mcpServers": {{"a": {{{PROGRAM}, /* "b": 1 }}\n */ }}, // last\n}}, }}',
    ],
)
def test_every_common_form_of_servers_is_read(text: str) -> None:
    server = ToolServerConfig("a", "npx", ("-y", "some-server"), is_on=True)
    assert servers_from(text) == ReadServers([server])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OPENAI_API_KEY", "abc"),
        ("GITHUB_PERSONAL_ACCESS_TOKEN", "abc"),
        ("DB", "postgres://me:pw@host/db"),
        ("ANY", "sk-123"),
        ("THING", "${input:thing}"),
    ],
)
def test_a_value_that_looks_like_a_secret_is_marked_and_not_written(name: str, value: str) -> None:
    entry = {"command": "x", "env": {name: value, "PORT": "80"}}
    [server] = servers_from(json.dumps({"mcpServers": {"a": entry}})).servers
    assert [one.is_secret for one in server.env] == [True, False]
    assert value not in text_of([server])
    assert json.loads(text_of([server]))["mcpServers"]["a"]["env"]["PORT"] == "80"


def test_unknown_fields_of_other_apps_are_kept_and_never_used() -> None:
    text = f'{{"mcpServers": {{"a": {{{PROGRAM}, "autoApprove": ["*"], "timeout": 5}}}}}}'
    again = json.loads(text_of(servers_from(text).servers))["mcpServers"]["a"]
    assert (again["autoApprove"], again["timeout"]) == (["*"], 5)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "The text is empty."),
        ("{'mcpServers': {}}", "Put texts in straight double quotes."),
        ('{"mcpServers": {"a": {"command": "x"}', "The end is missing"),
        ('{"mcpServers": {} # none', "Remove the comment, or begin it with //."),
        ('{ // first\n /* two\n lines */ "mcpServers" {}}', "Line 3, column 24: this is not"),
        ("[]", "must be a JSON object"),
        ('{"mcpServers": {}}', "names no server"),
        ('{"mcpServers": []}', "mcpServers: must be an object"),
        ('{"command": "npx"}', "The server has no name."),
        ('{"theme": "dark"}', "mcpServers: is missing"),
        ('{"mcpServers": {"a": "npx"}}', 'mcpServers.a: must be an object with "command"'),
        ('{"mcpServers": {"a": {}}}', 'mcpServers.a: needs "command" (a program) or "url"'),
        ('{"mcpServers": {"a": {"command": 1}}}', "mcpServers.a.command: must be a text"),
        ('{"mcpServers": {"a": {"command": "x", "args": "-y"}}}', "mcpServers.a.args: must be a"),
        ('{"mcpServers": {"a": {"command": "x", "args": ["p", 80]}}}', "a.args[1]: must be a text"),
        ('{"mcpServers": {"a": {"command": "x", "env": {"P": 80}}}}', "a.env.P: must be a text"),
        ('{"mcpServers": {"a": {"url": "example.org"}}}', "a.url: is not an address"),
        ('{"mcpServers": {"a": {"url": "file:///etc/passwd"}}}', "a.url: is not an address"),
        ('{"mcpServers": {"a": {"url": "http://h", "command": "x"}}}', 'both "command" and "url"'),
        ('{"mcpServers": {"a": {"type": "ftp", "url": "http://h"}}}', '"ftp" is unknown'),
        ('{"mcpServers": {"a": {"command": "x", "disabled": "no"}}}', "a.disabled: must be true"),
        ('{"mcpServers": {"a\\u001b": {"command": "x"}}}', "a character that cannot be shown"),
        ('{"mcpServers": {"a": {"command": "x\\u0000"}}}', "a.command: has a character"),
        (
            '{"mcpServers": {"a": {"url": "http://h", "headers": {"X": "a\\nb"}}}}',
            "a.headers.X: a header is one line",
        ),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_fault_is_named_with_the_remedy(text: str, said: str) -> None:
    with pytest.raises(BadConfiguration) as refused:
        servers_from(text)
    assert said in str(refused.value)


def test_a_damaged_file_is_set_aside_and_named(tmp_path: Path) -> None:
    file = ServersFile(tmp_path)
    file.path.write_text('{"mcpServers": {"a": {"command": 7}}}')
    assert file.load() == []
    assert "mcpServers.a.command: must be a text" in file.notice
    [kept] = tmp_path.glob("tool-servers.json.broken-*")
    assert kept.name in file.notice
    assert "7" in kept.read_text()


def test_a_comment_is_only_what_is_outside_of_texts() -> None:
    [server] = servers_from('{"a": {"url": "https://e.org//x", "headers": {"X": ",]/*"}}}').servers
    assert server.url == "https://e.org//x"
    assert server.headers[0].value == ",]/*"
    [server] = servers_from('{"a": {"command": "x", "args": ["a", /* b */ "c" /* d */]}}').servers
    assert server.args == ("a", "c")


def test_what_can_be_used_of_a_pasted_json_is_added_and_the_rest_named(served: Served) -> None:
    text = """{"mcpServers": {
        "good": {"command": "x"}, "both": {"url": "http://h", "command": "x"}, "none": {}}}"""
    added = served.do(served.host.add_text(text))
    assert added.names == ("good",)
    both, none = added.refused
    assert 'mcpServers.both: has both "command" and "url"' in both
    assert 'mcpServers.none: needs "command" (a program) or "url".' in none
    with pytest.raises(ToolsRefused, match=r"mcpServers\.a: needs .* mcpServers\.b: must be"):
        served.do(served.host.add_text('{"mcpServers": {"a": {}, "b": 1}}'))


def test_one_wrong_server_in_the_file_loses_no_other(tmp_path: Path) -> None:
    file = ServersFile(tmp_path)
    file.path.write_text('{"mcpServers": {"a": {"command": 7}, "b": {"command": "x"}}}')
    [kept] = file.load()
    assert kept.name == "b"
    assert "could be used only in part: mcpServers.a.command: must be a text" in file.notice
    assert [one.name for one in ServersFile(tmp_path).load()] == ["b"]
    [aside] = tmp_path.glob("tool-servers.json.broken-*")
    assert '"a"' in aside.read_text()


def test_a_file_that_cannot_be_set_aside_is_not_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = ServersFile(tmp_path)
    text = '{"mcpServers": {"a": {"command": 7}, "b": {"command": "x"}}}'
    file.path.write_text(text)
    with monkeypatch.context() as patched:
        nothing_is_set_aside(patched)
        [read] = file.load()
        assert read.name == "b"
        assert "could not be set aside, and nothing is saved over it" in file.notice
        with pytest.raises(PermissionError):
            file.save([read])
    assert file.path.read_text() == text
    file.save([replace(read, command="y")])  # the folder can be written again
    [aside] = tmp_path.glob("tool-servers.json.broken-*")
    assert aside.read_text() == text
    assert [one.command for one in ServersFile(tmp_path).load()] == ["y"]


def test_claude_desktops_file_is_found_on_each_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    name = "Claude/claude_desktop_config.json"
    mac = tmp_path / "Library" / "Application Support" / name
    assert claude_desktop_file(tmp_path, "darwin") == mac
    assert claude_desktop_file(tmp_path, "linux") == tmp_path / ".config" / name


def test_a_pasted_or_imported_server_is_off_and_replaces_nothing(served: Served) -> None:
    marker = served.folder / "was-run"
    code = f"open({str(marker)!r}, 'w')"
    entry = {"command": sys.executable, "args": ["-c", code]}
    text = json.dumps({"mcpServers": {"tool": entry}})
    assert served.do(served.host.add_text(text)).names == ("tool",)
    (served.folder / "claude.json").write_text(text)
    assert served.do(served.host.import_claude_desktop()).names == ("tool 2",)
    served.do(served.host.ready(["tool", "tool 2"]))
    assert [served.state(name).stage for name in ("tool", "tool 2")] == [ServerStage.OFF] * 2
    assert not marker.exists()
    with pytest.raises(ToolsRefused, match="straight double quotes"):
        served.do(served.host.add_text("{'mcpServers': {}}"))
    assert [one.name for one in served.host.servers] == ["tool", "tool 2"]


def test_a_secret_is_renamed_and_removed_with_its_server(served: Served) -> None:
    secrets, host = served.host._secrets, served.host
    token = NamedValue("TOKEN", "hidden", is_secret=True)
    served.do(host.put(ToolServerConfig("old", "x", env=(token,))))
    served.do(host.put(ToolServerConfig("new", "x", env=(NamedValue("TOKEN", "", True),)), "old"))
    assert secrets.value("old", "env/TOKEN") is None
    assert secrets.value("new", "env/TOKEN") == "hidden"
    served.do(host.remove("new"))
    assert secrets.value("new", "env/TOKEN") is None


def test_a_private_file_of_secrets_is_named_until_it_is_empty(
    tmp_path: Path,
) -> None:
    kept = ToolSecrets(tmp_path, no_keychain)
    kept.keep("files", "env/TOKEN", "hidden")
    later = ToolSecrets(tmp_path, no_keychain)
    later.look()
    assert later.place_words.startswith("Secrets are in a private file, because")
    later.forget("files", "env/TOKEN")
    assert later.place_words == ""


def test_a_secret_without_a_value_is_asked_for_by_name(served: Served) -> None:
    config = ToolServerConfig("asks", "x", env=(NamedValue("TOKEN", "", True),), is_on=True)
    served.do(served.host.put(config))
    served.do(served.host.ready(["asks"]))
    said = "The tool server “asks” needs a value for TOKEN. Fill it in: choose Edit."
    assert served.state("asks").problem == said
