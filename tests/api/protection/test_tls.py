"""Encrypted connections: certificates that work, and the errors for those that do not."""

import contextlib
import http.client
import json
import os
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from api.server.tls import context_of
from api.transport.config import ConfigError, ServerConfig
from tests.api.conftest import LONG
from tests.support.outside.certificates import CertificateFiles, write_certificate

ASK = {"model": "m", "max_tokens": 4, "messages": [{"role": "user", "content": "Hi"}]}


@pytest.fixture
def files(tmp_path: Path) -> CertificateFiles:
    return write_certificate(tmp_path)


def client_of(site: Any, files: CertificateFiles) -> http.client.HTTPSConnection:
    trust = ssl.create_default_context(cafile=str(files.cert))
    return http.client.HTTPSConnection("127.0.0.1", site.address.port, timeout=60, context=trust)


def post(client: http.client.HTTPSConnection, body: Any, **headers: str) -> Any:
    client.request("POST", "/v1/messages", json.dumps(body), headers)
    return client.getresponse()


def test_a_client_that_trusts_the_certificate_is_answered(
    serve: Callable[..., Any], files: CertificateFiles
) -> None:
    site = serve(tls_cert=files.cert, tls_key=files.key)
    assert site.url == f"https://127.0.0.1:{site.address.port}"
    client = client_of(site, files)
    answer = post(client, ASK)

    assert (answer.status, json.loads(answer.read())["type"]) == (200, "message")
    # The same connection again, as a stream.
    assert b"event: message_stop" in post(client, ASK | {"stream": True}).read()
    client.close()


def test_one_file_may_hold_certificate_and_key(
    serve: Callable[..., Any], files: CertificateFiles
) -> None:
    both = files.cert.with_name("both.pem")
    both.write_bytes(files.key.read_bytes() + files.cert.read_bytes())
    client = client_of(serve(tls_cert=both), files)

    assert post(client, ASK).status == 200
    client.close()


def test_a_client_that_does_not_encrypt_gets_nothing_and_does_no_harm(
    serve: Callable[..., Any], files: CertificateFiles, caplog: pytest.LogCaptureFixture
) -> None:
    site = serve(tls_cert=files.cert, tls_key=files.key)
    for sent in (b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x16\x03\x01", b"\0" * 999):
        with socket.create_connection(("127.0.0.1", site.address.port), timeout=60) as plain:
            plain.sendall(sent)
            plain.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                assert b"HTTP" not in plain.recv(65536)
    client = client_of(site, files)
    assert post(client, ASK).status == 200
    client.close()
    assert "Traceback" not in caplog.text


def test_a_handshake_that_does_not_arrive_in_time_ends_the_connection(
    serve: Callable[..., Any], files: CertificateFiles
) -> None:
    site = serve(tls_cert=files.cert, tls_key=files.key, header_timeout_s=0.2)
    with socket.create_connection(("127.0.0.1", site.address.port), timeout=60) as silent:
        assert silent.recv(1) == b""


def test_a_client_that_hangs_up_ends_its_answer_over_tls(
    staged: Callable[..., Any], files: CertificateFiles
) -> None:
    stage = staged(settings={"tls_cert": files.cert, "tls_key": files.key})
    site = stage.site
    client = client_of(site, files)
    ask = {"model": "m", "max_tokens": 2000, "messages": [{"role": "user", "content": LONG}]}
    answer = post(client, ask | {"stream": True})
    answer.readline()
    assert stage.wait_until(lambda engine: engine.status.running == 1)
    answer.close()
    client.close()

    assert stage.wait_until_idle()


def complaint(cert: Path, key: Path | None) -> ConfigError:
    with pytest.raises(ConfigError) as refused:
        context_of(ServerConfig(tls_cert=cert, tls_key=key))
    assert "\n" not in str(refused.value)
    return refused.value


def test_a_key_with_a_passphrase_is_refused_without_a_prompt(tmp_path: Path) -> None:
    files = write_certificate(tmp_path, passphrase=b"secret")
    error = complaint(files.cert, files.key)

    assert error.setting == "tls_key"
    assert "protected by a passphrase" in str(error)


def test_a_key_of_another_certificate_is_refused(tmp_path: Path, files: CertificateFiles) -> None:
    other = write_certificate(tmp_path, name="other")
    error = complaint(files.cert, other.key)

    assert error.setting == "tls_key"
    assert f"{other.key} is not the key of {files.cert}" in str(error)


def test_files_that_cannot_be_read_or_contain_something_else_are_named(
    tmp_path: Path, files: CertificateFiles
) -> None:
    nowhere, empty, broken = tmp_path / "nowhere", tmp_path / "empty", tmp_path / "broken"
    empty.write_bytes(b"\xff\xfe\0")
    broken.write_bytes(files.cert.read_bytes().replace(b"\nMII", b"\nAAA"))
    cases = (
        (nowhere, files.key, "tls_cert", "no such file"),
        (files.cert, nowhere, "tls_key", "no such file"),
        (tmp_path, files.key, "tls_cert", "it is a folder"),
        (empty, files.key, "tls_cert", "contains no certificate"),
        (files.key, files.key, "tls_cert", "contains no certificate"),
        (files.cert, files.cert, "tls_key", "contains no private key"),
        (files.cert, None, "tls_cert", "--tls-key"),
        (broken, files.key, "tls_cert", "cannot be used"),
    )
    for cert, key, setting, words in cases:
        error = complaint(cert, key)
        assert (error.setting, words in str(error)) == (setting, True), str(error)


def test_a_path_that_is_not_a_regular_file_is_refused(
    files: CertificateFiles, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")  # nothing will ever write to it
    for place in (Path("/dev/zero"), tmp_path / "pipe"):
        error = complaint(place, files.key)
        assert f"{place} cannot be read: it is not a regular file" in str(error)
        assert error.setting == "tls_cert"
    assert complaint(files.cert, tmp_path / "pipe").setting == "tls_key"


def test_a_key_alone_is_refused(files: CertificateFiles) -> None:
    with pytest.raises(ConfigError) as refused:
        ServerConfig(tls_key=files.key)
    assert refused.value.setting == "tls_key"


@pytest.mark.parametrize(
    ("settings", "is_readable"),
    [
        ({}, False),
        ({"host": "0.0.0.0", "api_key": "k"}, True),
        ({"host": "0.0.0.0", "api_key": "k", "tls_cert": Path("c")}, False),
        ({"host": "::1"}, False),
    ],
)
def test_others_can_read_along_only_beyond_this_computer_and_without_a_certificate(
    settings: dict[str, Any], is_readable: bool
) -> None:
    assert ServerConfig(**settings).is_readable_on_the_way is is_readable
