from typing import Any

import pytest

from api.service.config import Address, ConfigError, ServerConfig


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.53"])
def test_a_server_for_this_computer_needs_no_key(host: str) -> None:
    assert ServerConfig(host=host).api_key is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "mac.local"])
def test_a_server_for_other_computers_needs_a_key(host: str) -> None:
    with pytest.raises(ConfigError, match="api_key: is required to listen on"):
        ServerConfig(host=host)

    assert ServerConfig(host=host, api_key="secret").host == host


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"host": " "}, "host"),
        ({"api_key": " "}, "api_key"),
        ({"allowed_origins": ("app.example",)}, "allowed_origins"),
        ({"allowed_origins": ("https://app.example/",)}, "allowed_origins"),
        ({"allowed_origins": ("https://*",)}, "allowed_origins"),
        ({"allowed_origins": ("https://*.example.org",)}, "allowed_origins"),
        ({"allowed_origins": ("://*",)}, "allowed_origins"),
    ],
)
def test_an_invalid_setting_is_named(settings: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ServerConfig(**settings)

    assert caught.value.setting == name


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("localhost", "http://localhost:80"),
        ("::1", "http://[::1]:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::", "http://[::1]:80"),
    ],
)
def test_an_address_has_a_url_that_a_client_on_this_computer_can_open(host: str, url: str) -> None:
    assert Address(host, 80).url == url
