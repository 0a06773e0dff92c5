"""The ``mcpServers`` JSON: the forms of other apps are read, and faults are named."""

import asyncio
import errno
import json
import sys
import threading
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest

from app.mcp import configuration
from app.mcp.configuration import (
    BadConfiguration,
    ServersFile,
    format_servers,
    parse_servers,
)
from app.mcp.host import ToolServers
from tests.app.mcp.served import Served, hostile, is_dead
from tests.support.kept import nothing_is_set_aside
from ui.records.tool_servers import NamedValue, ToolServerConfig, ToolsRefused

PROGRAM = '"command": "npx", "args": ["-y", "some-server"]'


def test_mcp_servers_json_with_stdio_and_http() -> None:
    text = """{"mcpServers": {
      "files": {"command": "npx", "args": ["-y", "s"], "env": {"LEVEL": "1"}, "cwd": "/tmp"},
      "web": {"type": "http", "url": "https://e.org/mcp", "headers": {"X-Team": "a"},
              "disabled": true}}}"""
    [older] = parse_servers('{"a": {"type": "sse", "url": "https://e.org/sse"}}')[0]
    assert older == ToolServerConfig("a", url="https://e.org/sse", is_sse=True, is_on=True)
    assert parse_servers(format_servers([older]))[0] == [older]
    files, web = parse_servers(text)[0]
    assert files == ToolServerConfig(
        "files", "npx", ("-y", "s"), (NamedValue("LEVEL", "1"),), "/tmp", is_on=True
    )
    assert web == ToolServerConfig(
        "web", url="https://e.org/mcp", headers=(NamedValue("X-Team", "a"),), is_on=False
    )


@pytest.mark.parametrize(
    "text",
    [
        f'{{"servers": {{"a": {{"type": "stdio", {PROGRAM}}}}}}}',
        f'"a": {{{PROGRAM}}},',
        f'// mine\n{{"mcpServers": {{"a": {{{PROGRAM}, /* "b": 1 }}\n */ }}, // last\n}}, }}',
    ],
)
def test_mcp_servers_json_of_other_apps(text: str) -> None:
    server = ToolServerConfig("a", "npx", ("-y", "some-server"), is_on=True)
    assert parse_servers(text) == ([server], ())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OPENAI_API_KEY", "abc"),
        ("DB", "postgres://me:pw@host/db"),
        ("ANY", "sk-123"),
        ("THING", "${input:thing}"),
    ],
)
def test_mcp_secret_values_are_not_written(name: str, value: str) -> None:
    entry = {"command": "x", "env": {name: value, "PORT": "80"}}
    [server] = parse_servers(json.dumps({"mcpServers": {"a": entry}}))[0]
    assert [one.is_secret for one in server.env] == [True, False]
    assert value not in format_servers([server])
    assert json.loads(format_servers([server]))["mcpServers"]["a"]["env"]["PORT"] == "80"


def test_mcp_unknown_fields_are_kept() -> None:
    text = f'{{"mcpServers": {{"a": {{{PROGRAM}, "autoApprove": ["*"], "timeout": 5}}}}}}'
    again = json.loads(format_servers(parse_servers(text)[0]))["mcpServers"]["a"]
    assert (again["autoApprove"], again["timeout"]) == (["*"], 5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{ // first\n /* two\n lines */ "mcpServers" {}}', "line 3, column 24"),
        ("[" * 100_000, "nested too deeply"),
        ('{"command": "npx"}', "The server has no name."),
        ('{"mcpServers": {"a": {}}}', 'mcpServers.a: needs either "command"'),
        ('{"mcpServers": {"a": {"url": "file:///etc/passwd"}}}', "a.url: must begin with http"),
        ('{"mcpServers": {"a": {"command": "x\\u0000"}}}', "a.command: contains a character"),
        (
            '{"mcpServers": {"a": {"url": "http://h", "headers": {"X": "a\\nb"}}}}',
            "a.headers.X: a header is one line",
        ),
    ],
)
def test_mcp_configuration_error_names_field_and_remedy(text: str, message: str) -> None:
    with pytest.raises(BadConfiguration) as error:
        parse_servers(text)
    assert message in str(error.value)


def test_mcp_damaged_servers_file_is_set_aside(tmp_path: Path) -> None:
    file = ServersFile(tmp_path)
    file.path.write_text('{"mcpServers": {"a": {"command": 7}}}')
    assert file.load() == []
    assert "mcpServers.a.command: must be text" in file.notice
    [kept] = tmp_path.glob("tool-servers.set-aside-*.json")
    assert kept.name in file.notice
    assert "7" in kept.read_text()


def test_mcp_json_comments_only_outside_of_strings() -> None:
    [server] = parse_servers('{"a": {"url": "https://e.org//x", "headers": {"X": ",]/*"}}}')[0]
    assert server.url == "https://e.org//x"
    assert server.headers[0].value == ",]/*"
    [server] = parse_servers('{"a": {"command": "x", "args": ["a", /* b */ "c" /* d */]}}')[0]
    assert server.args == ("a", "c")


def test_mcp_valid_servers_of_pasted_json_are_added(served: Served) -> None:
    text = """{"mcpServers": {
        "good": {"command": "x"}, "both": {"url": "http://h", "command": "x"}, "none": {}}}"""
    names, errors = served.do(served.host.add_text(text))
    assert names == ["good"]
    both, none = errors
    assert 'mcpServers.both: needs either "command"' in both
    assert 'mcpServers.none: needs either "command"' in none
    with pytest.raises(ToolsRefused, match=r"mcpServers\.a: needs .* mcpServers\.b: must be"):
        served.do(served.host.add_text('{"mcpServers": {"a": {}, "b": 1}}'))


def test_mcp_invalid_server_in_the_file_loses_no_other(tmp_path: Path) -> None:
    file = ServersFile(tmp_path)
    file.path.write_text('{"mcpServers": {"a": {"command": 7}, "b": {"command": "x"}}}')
    [kept] = file.load()
    assert kept.name == "b"
    assert "could be used only in part: mcpServers.a.command: must be text" in file.notice
    assert [one.name for one in ServersFile(tmp_path).load()] == ["b"]
    [aside] = tmp_path.glob("tool-servers.set-aside-*.json")
    assert '"a"' in aside.read_text()


def test_mcp_damaged_file_is_not_overwritten(
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
    [aside] = tmp_path.glob("tool-servers.set-aside-*.json")
    assert aside.read_text() == text
    assert [one.command for one in ServersFile(tmp_path).load()] == ["y"]


def test_mcp_servers_stay_while_their_file_cannot_be_read(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.do(served.host.add_text('{"mcpServers": {"a": {"command": "x"}}}'))
    with monkeypatch.context() as patched:
        unread = Mock(side_effect=OSError(errno.EMFILE, "many"))
        patched.setattr(configuration, "read_bounded", unread)
        with pytest.raises(ToolsRefused, match="too many files are open"):
            served.do(served.host.add_text('{"mcpServers": {"b": {"command": "x"}}}'))
        assert [one.name for one in served.host.servers] == ["a"]
        host = ToolServers(served.folder, call_timeout_s=lambda: 1)
        with pytest.raises(ToolsRefused):
            served.do(host.remove("a"))
        assert "tool-servers.json could not be read: too many files are open" in host.notice
    assert not [*served.folder.glob("*.set-aside-*")]
    served.do(served.host.add_text('{"mcpServers": {"b": {"command": "x"}}}'))
    assert [one.name for one in served.host.servers] == ["a", "b"]


def test_mcp_added_servers_are_off_and_replace_nothing(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = served.folder / "was-run"
    code = f"open({str(marker)!r}, 'w')"
    entry = {"command": sys.executable, "args": ["-c", code]}
    text = json.dumps({"mcpServers": {"tool": entry}})
    assert served.do(served.host.add_text(text))[0] == ["tool"]
    file = served.folder / "claude.json"
    file.write_text(text)
    monkeypatch.setattr("app.mcp.configuration.claude_desktop_file", lambda: file)
    assert served.do(served.host.import_claude_desktop())[0] == ["tool 2"]
    served.do(served.host.ensure_ready(["tool", "tool 2"]))
    assert [served.state(name).stage for name in ("tool", "tool 2")] == ["off"] * 2
    assert not marker.exists()
    with pytest.raises(ToolsRefused, match="Invalid JSON"):
        served.do(served.host.add_text("{'mcpServers': {}}"))
    assert [one.name for one in served.host.servers] == ["tool", "tool 2"]


def test_mcp_numbered_name_of_an_added_server_can_be_read_again(served: Served) -> None:
    name = "x" * 62 + " y"
    text = json.dumps({name: {"command": "x"}})
    for _ in range(2):
        served.do(served.host.add_text(text))
    names = [one.name for one in served.host.servers]
    assert names == [name, "x" * 62 + " 2"]
    file = ServersFile(served.folder)
    assert [one.name for one in file.load()] == names
    assert file.notice == ""


def test_mcp_servers_of_the_same_name_are_an_error() -> None:
    [server], errors = parse_servers('{"a": {"command": "x"}, "a ": {"command": "y"}}')
    assert server.command == "x"
    assert errors == ("mcpServers.a : two servers are called a. Rename one.",)


def test_mcp_server_added_by_another_process_is_kept(served: Served) -> None:
    served.do(served.host.put(ToolServerConfig("first", "x")))
    other = ServersFile(served.folder)
    other.save([*other.load(), ToolServerConfig("second", "y")])
    served.do(served.host.switch("first", True))
    assert [(one.name, one.is_on) for one in ServersFile(served.folder).load()] == [
        ("first", True),
        ("second", False),
    ]
    assert [one.name for one in served.host.servers] == ["first", "second"]


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_mcp_server_edited_by_another_process_does_not_run_on(served: Served, how: str) -> None:
    config = hostile("first")
    served.do(served.host.put(config))
    before = psutil.Process().children()
    served.do(served.host.ensure_ready(["first"]))
    [process] = set(psutil.Process().children()) - set(before)
    changed = () if how == "removed" else (replace(config, args=(*config.args[:-1], "tasks")),)
    ServersFile(served.folder).save(changed)
    served.do(served.host.put(ToolServerConfig("second", "x")))
    assert is_dead(process.pid)
    served.do(served.host.ensure_ready(["first"]))
    states = [(one.name, one.stage, len(one.remarks)) for one in served.host.servers]
    assert states == [*(("first", "ready", 1) for _ in changed), ("second", "off", 0)]


def test_mcp_server_is_ready_for_all_that_wait_for_its_start(served: Served) -> None:
    served.do(served.host.put(hostile("fine")))

    async def stage_when_ready() -> str:
        await served.host.ensure_ready(["fine"])
        return served.state("fine").stage

    async def stages() -> list[str]:
        return await asyncio.gather(stage_when_ready(), stage_when_ready())

    assert served.do(stages()) == ["ready", "ready"]


def test_mcp_secret_follows_renaming_and_removal(served: Served) -> None:
    secrets, host = served.host._secrets, served.host
    token = NamedValue("TOKEN", "hidden", is_secret=True)
    served.do(host.put(ToolServerConfig("old", "x", env=(token,))))
    served.do(host.put(ToolServerConfig("new", "x", env=(NamedValue("TOKEN", "", True),)), "old"))
    assert secrets.value("old", "env/TOKEN") is None
    assert secrets.value("new", "env/TOKEN") == "hidden"
    served.do(host.remove("new"))
    assert secrets.value("new", "env/TOKEN") is None


def test_mcp_missing_secret_is_named(served: Served) -> None:
    config = ToolServerConfig("asks", "x", env=(NamedValue("TOKEN", "", True),), is_on=True)
    served.do(served.host.put(config))
    served.do(served.host.ensure_ready(["asks"]))
    said = "The MCP server “asks” needs a value for TOKEN. Fill it in: choose Edit."
    assert served.state("asks").problem == said


def test_mcp_file_with_secrets_that_cannot_be_stored_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """{"mcpServers": {
        "a": {"command": "x", "env": {"MY_TOKEN": "hidden"}}, "b": {"command": "y"}}}"""
    file = ServersFile(tmp_path).path
    file.write_text(text)
    with asyncio.Runner() as runner:
        served = Served(runner, tmp_path)
        with monkeypatch.context() as patched:
            full = OSError(errno.ENOSPC, "full")
            patched.setattr(served.host._secrets, "save", Mock(side_effect=full))
            served.do(served.host.ensure_ready([]))
            assert [one.name for one in served.host.servers] == ["a", "b"]
            assert served.host.notice == ("tool-servers.json: Couldn’t save: the disk is full.")
            with pytest.raises(ToolsRefused, match="Couldn’t save: the disk is full"):
                served.do(served.host.add_text('{"c": {"command": "z"}}'))
            assert file.read_text() == text
        served.do(served.host.add_text('{"c": {"command": "z"}}'))
        assert [one.name for one in served.host.servers] == ["a", "b", "c"]
        assert served.host._secrets.value("a", "env/MY_TOKEN") == "hidden"
        assert "hidden" not in file.read_text()
        served.do(served.host.finish())


@pytest.mark.parametrize("how", ["off", "removed", "finished"])
def test_mcp_server_that_is_ended_while_it_starts_does_not_run(
    served: Served, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    host = served.host
    token = NamedValue("TOKEN", "hidden", is_secret=True)
    served.do(host.put(ToolServerConfig("slow", sys.executable, ("-c", ""), env=(token,))))
    is_asked, is_unlocked = threading.Event(), threading.Event()

    def value(*_: str) -> str:
        is_asked.set()
        is_unlocked.wait(30)
        return "hidden"

    monkeypatch.setattr(host._secrets, "value", value)

    async def end_while_it_starts() -> None:
        starting = asyncio.ensure_future(host.switch("slow", True))
        await asyncio.to_thread(is_asked.wait, 30)
        await {
            "off": lambda: host.switch("slow", False),
            "removed": lambda: host.remove("slow"),
        }.get(how, host.finish)()
        is_unlocked.set()
        await starting

    served.do(end_while_it_starts())
    assert all(entry.server is None and not entry.problem for entry in host._entries.values())


def test_mcp_failed_call_does_not_claim_that_saving_failed(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served.host, "_ready_server", Mock(side_effect=OSError(errno.EIO, "")))
    with pytest.raises(ToolsRefused, match="This failed"):
        served.do(served.host.read_resource("a", "b"))
