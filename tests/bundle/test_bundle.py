"""What a bundle is made of, as far as it is known without building one."""

import plistlib
import re
from pathlib import Path

import pytest

from app import __version__
from assets.bundle import mac, packages
from assets.bundle.mac import SIDES, packed, side_of
from assets.bundle.packages import Interpreter, copy, gathered
from assets.bundle.product import (
    ICONS,
    IDENTIFIER,
    LICENCE_TEXTS,
    RUN_SUFFIX,
    RUN_TYPE,
    BuildFailed,
    mac_layout,
)


def package(site_packages: Path, name: str, metadata: str, **texts: str) -> Path:
    """Write what is known of an installed package."""
    folder = site_packages / f"{name}-1.0.dist-info"
    folder.mkdir(parents=True)
    about = f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.0\n{metadata}\n\nIt does much."
    (folder / "METADATA").write_text(about)
    for file, text in texts.items():
        (folder / file).write_text(text)
    return folder


def test_the_apps_property_list_names_version_system_category_and_reasons() -> None:
    info = mac.info("3.2.1")
    assert info["CFBundleIdentifier"] == IDENTIFIER
    assert (info["CFBundleShortVersionString"], info["CFBundleVersion"]) == ("3.2.1", "3.2.1")
    assert info["LSMinimumSystemVersion"] == "14.0"
    assert info["LSApplicationCategoryType"] == "public.app-category.developer-tools"
    assert "network" in info["NSLocalNetworkUsageDescription"]
    assert plistlib.loads(plistlib.dumps(info)) == info


def test_saved_runs_are_a_type_that_the_app_declares_and_opens() -> None:
    info = mac.info("1.0")
    [declared] = info["UTExportedTypeDeclarations"]
    assert declared["UTTypeIdentifier"] == RUN_TYPE
    assert declared["UTTypeTagSpecification"] == {"public.filename-extension": [RUN_SUFFIX]}
    opened = {t for one in info["CFBundleDocumentTypes"] for t in one["LSItemContentTypes"]}
    assert opened == {RUN_TYPE, "public.json"}


def test_at_login_the_app_is_started_by_its_name_wherever_it_lies() -> None:
    agent = mac.login_agent()
    assert agent["RunAtLoad"] is True
    assert agent["ProgramArguments"][-2:] == ["-b", IDENTIFIER]
    assert not any("Applications" in word for word in agent["ProgramArguments"])


def test_an_app_gets_all_its_files(tmp_path: Path) -> None:
    layout = mac_layout(tmp_path)
    layout.resources.mkdir(parents=True)
    mac.write_files(layout, __version__)
    contents = layout.root / "Contents"
    info = plistlib.loads((contents / "Info.plist").read_bytes())
    assert (layout.resources / info["CFBundleIconFile"]).read_bytes().startswith(b"icns")
    assert layout.program == contents / "MacOS" / info["CFBundleExecutable"]
    [agent] = (contents / "Library" / "LaunchAgents").iterdir()
    assert plistlib.loads(agent.read_bytes())["Label"] == agent.stem


def test_the_container_of_icons_holds_each_picture_as_it_is() -> None:
    pictures = {side: (ICONS / f"{side}.png").read_bytes() for side in SIDES}
    container = packed(pictures)
    assert container[:4] == b"icns"
    assert int.from_bytes(container[4:8], "big") == len(container)
    found: dict[bytes, bytes] = {}
    at = 8
    while at < len(container):
        length = int.from_bytes(container[at + 4 : at + 8], "big")
        found[container[at : at + 4]] = container[at + 8 : at + length]
        at += length
    assert at == len(container)
    sides = {kind: side_of(picture) for kind, picture in found.items()}
    ordinary = {b"icp4": 16, b"icp5": 32, b"ic07": 128, b"ic08": 256, b"ic09": 512}
    doubled = {b"ic11": 32, b"ic12": 64, b"ic13": 256, b"ic14": 512, b"ic10": 1024}
    assert sides == ordinary | doubled
    assert all(picture == pictures[side_of(picture)] for picture in found.values())


@pytest.mark.parametrize(
    "tag",
    [
        "py3-none-any",
        "cp312-cp312-macosx_14_0_arm64",
        "cp310-abi3-macosx_13_0_universal2",
        "cp39-abi3-macosx_11_0_arm64",
    ],
)
def test_wheels_for_the_oldest_mac_are_taken(tag: str) -> None:
    packages.check_tags([("mlx", [tag])], "darwin")


@pytest.mark.parametrize(
    "tag",
    [
        "cp312-cp312-macosx_14_4_arm64",
        "cp312-cp312-macosx_15_0_arm64",
        "cp312-cp312-macosx_26_0_arm64",
        "cp312-cp312-macosx_14_0_x86_64",
        "cp312-cp312-manylinux_2_28_x86_64",
    ],
)
def test_wheels_for_newer_or_other_systems_are_refused_by_name(tag: str) -> None:
    with pytest.raises(BuildFailed, match=f"not for macOS 14.0: mlx: {tag.rpartition('-')[2]}"):
        packages.check_tags([("numpy", ["py3-none-any"]), ("mlx", [tag])], "darwin")


def test_mlx_without_its_metal_library_is_no_app(tmp_path: Path) -> None:
    lib = tmp_path / "mlx" / "lib"
    lib.mkdir(parents=True)
    (lib / "libmlx.dylib").touch()
    with pytest.raises(BuildFailed, match=re.escape("mlx.metallib")):
        packages.check_mlx(tmp_path, "darwin")
    (lib / "mlx.metallib").touch()
    packages.check_mlx(tmp_path, "darwin")


def test_unused_parts_of_qt_are_left_out_and_used_ones_stay(tmp_path: Path) -> None:
    qt = tmp_path / "PySide6"
    names = ["QtCore.abi3.so", "QtQml.abi3.so", "QtCore.pyi", "lupdate", "Designer.app"]
    libraries = ["libQt6Svg.so.6", "libQt6Quick.so.6", "QtGui.framework", "QtQuick.framework"]
    for folder in (
        *names,
        *(f"Qt/lib/{one}" for one in libraries),
        "Qt/qml",
        "Qt/plugins/platforms/libqxcb.so",
    ):
        (qt / folder).mkdir(parents=True)
    packages.leave_out_unused(tmp_path)
    assert {path.name for path in qt.iterdir()} == {"Qt", "QtCore.abi3.so"}
    assert {path.name for path in (qt / "Qt").iterdir()} == {"lib", "plugins"}
    assert (qt / "Qt" / "plugins" / "platforms" / "libqxcb.so").exists()
    assert {path.name for path in (qt / "Qt" / "lib").iterdir()} == {
        "libQt6Svg.so.6",
        "QtGui.framework",
    }


def test_licences_are_gathered_with_name_and_text(tmp_path: Path) -> None:
    python = tmp_path / "LICENSE.txt"
    python.write_text("Python's terms")
    package(tmp_path, "alpha", "License-Expression: MIT", LICENSE="alpha's terms")
    classifier = "Classifier: License :: OSI Approved :: Apache Software License"
    inner = package(tmp_path, "beta", classifier) / "licenses" / "sub"
    inner.mkdir(parents=True)
    (inner / "TERMS").write_text("beta's terms")
    package(tmp_path, "gamma", "License: BSD\n        and the rest of it")
    package(tmp_path, "delta", "")
    text = gathered(tmp_path, python, LICENCE_TEXTS.iterdir())
    for line in (
        *("Python\nLicence: Python Software Foundation License", "Python's terms"),
        *("alpha 1.0\nLicence: MIT\n", "--- LICENSE\n\nalpha's terms"),
        *("beta 1.0\nLicence: Apache Software License\n", "--- licenses/sub/TERMS"),
        *("beta's terms", "gamma 1.0\nLicence: BSD\n", "delta 1.0\nLicence: not stated\n"),
        *("GNU LESSER GENERAL PUBLIC LICENSE", "GNU GENERAL PUBLIC LICENSE"),
    ):
        assert line in text
    assert text.count("It brings no text") == 2


def test_of_python_only_what_programs_need_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "darwin")  # whose libraries need nothing beside them
    source, target = tmp_path / "source", tmp_path / "target"
    lib = source / "lib" / "python3.12"
    for folder in ("json", "test", "idlelib", "site-packages/pip", "config-3.12", "lib-dynload"):
        (lib / folder).mkdir(parents=True)
    (lib / "lib-dynload" / "_ssl.so").touch()
    (lib / "lib-dynload" / "_testcapi.so").touch()
    (source / "lib" / "libpython3.12.dylib").touch()
    (source / "lib" / "libpython3.12.a").touch()
    copy(Interpreter(source, "3.12"), target)
    found = {path.relative_to(target).as_posix() for path in target.rglob("*")}
    assert found == {
        *("bin", "lib", "lib/libpython3.12.dylib", "lib/python3.12", "lib/python3.12/json"),
        *("lib/python3.12/lib-dynload", "lib/python3.12/lib-dynload/_ssl.so"),
        "lib/python3.12/site-packages",
    }
