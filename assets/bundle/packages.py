"""Installs Fullstop and what it needs into a bundle's Python, and checks what came.

Only wheels are taken, never anything that would be compiled here; their tags must say that they
run on the oldest system that the product supports. Packages stay where pip puts them: MLX finds
its Metal library beside its own one.
"""

import platform
import re
import shutil
import sys
from collections.abc import Iterable
from email.parser import HeaderParser
from pathlib import Path

from assets.bundle.commands import BuildFailed, run
from assets.bundle.product import LEAST_MACOS, ROOT

_MACOS_TAG = re.compile(r"macosx_(\d+)_(\d+)_(\w+)")
_MAC_MACHINES = frozenset({"arm64", "universal2"})
_LINUX_TAG = re.compile(r"(manylinux|linux)\w*_(x86_64|aarch64)")
# Qt 6.12 itself is made for macOS 14.4 and later, whatever its wheel's tag says.
_ON_A_MAC = ("PySide6-Essentials<6.12",)
# Qt for languages and tools that the program does not use; ``--self-test`` proves it.
_NO_QT = re.compile(
    r"Qml|Quick|Designer|Linguist|Assistant|Help|Labs|Lottie|UiTools|Sql|Test|Compositor"
    r"|virtualkeyboard|qpdf",
    re.IGNORECASE,
)
_NO_QT_FOLDERS = (
    *("doc", "glue", "include", "scripts", "support", "typesystems"),
    *("Qt/libexec", "Qt/metatypes", "Qt/qml", "Qt/translations"),
    *("Qt/plugins/designer", "Qt/plugins/egldeviceintegrations", "Qt/plugins/generic"),
    *("Qt/plugins/qmllint", "Qt/plugins/qmlls", "Qt/plugins/qmltooling", "Qt/plugins/sqldrivers"),
    *("Qt/plugins/vectorimageformats", "Qt/plugins/wayland-graphics-integration-server"),
)
_QT_TOOLS = ("lrelease", "lupdate", "balsam", "balsamui", "qsb", "svgtoqml")


def install(python: Path, version: str, site_packages: Path, scratch: Path) -> None:
    """Install the product, as a wheel of this repository, with all that it requires.

    Args:
        python: Python's prefix in the bundle.
        version: Its version, as ``3.12``.
        site_packages: Where to.
        scratch: A folder for the product's own wheel.
    """
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    run([*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", scratch, ROOT])
    (wheel,) = scratch.glob("fullstop_chat-*.whl")
    command: list[str | Path] = [*pip, "--python", python / "bin" / "python3", "install", "--quiet"]
    command += ["--only-binary", ":all:", "--no-compile", "--no-warn-script-location"]
    command += ["--target", site_packages, "--upgrade"]
    if sys.platform == "darwin":
        major, minor = LEAST_MACOS
        command += ["--platform", f"macosx_{major}_{minor}_arm64", "--python-version", version]
        command += _ON_A_MAC
    run([*command, wheel])
    shutil.rmtree(site_packages / "bin", ignore_errors=True)


def check_tags(tags: Iterable[tuple[str, Iterable[str]]], system: str) -> None:
    """Check that packages run on the oldest system that the product supports.

    Args:
        tags: Names of packages with the tags of the wheels that they came from.
        system: ``darwin`` or ``linux``.

    Raises:
        BuildFailed: One needs a newer system or another one; the message names all of them.
    """
    wrong = []
    for name, its_tags in tags:
        platforms = [tag.rpartition("-")[2] for tag in its_tags]
        if not any(_runs(one, system) for one in platforms):
            wrong.append(f"{name}: {', '.join(platforms) or 'no tag'}")
    if wrong:
        least = ".".join(map(str, LEAST_MACOS))
        oldest = f"macOS {least}" if system == "darwin" else "Linux"
        raise BuildFailed(f"these wheels are not for {oldest}: " + "; ".join(wrong))


def wheel_tags(site_packages: Path) -> list[tuple[str, list[str]]]:
    """Return the tags of the wheel from which each package was installed."""
    found = []
    for file in sorted(site_packages.glob("*.dist-info/WHEEL")):
        headers = HeaderParser().parsestr(file.read_text(encoding="utf-8"))
        found.append((file.parent.name.partition("-")[0], headers.get_all("Tag") or []))
    return found


def check_mlx(site_packages: Path, system: str) -> None:
    """Check that MLX's libraries lie where it looks for them.

    Raises:
        BuildFailed: One is missing.
    """
    lib = site_packages / "mlx" / "lib"
    wanted = ["libmlx.dylib", "mlx.metallib"] if system == "darwin" else ["libmlx.so"]
    missing = [str(lib / name) for name in wanted if not (lib / name).is_file()]
    if missing:
        raise BuildFailed(f"MLX would not start without {', '.join(missing)}")


def leave_out_unused(site_packages: Path) -> None:
    """Take out the parts of Qt that the program does not use, and stubs that only editors read."""
    qt = site_packages / "PySide6"
    for name in _NO_QT_FOLDERS:
        shutil.rmtree(qt / name, ignore_errors=True)
    for path in [*qt.iterdir(), *qt.glob("Qt/lib/*"), *qt.glob("Qt/plugins/*/*")]:
        if path.suffix == ".pyi" or path.name in _QT_TOOLS or _NO_QT.search(path.name):
            _take_out(path)


def compile_all(python: Path, version: str) -> None:
    """Compile every module, so that none is ever written: a signed app must not change.

    The compiled files are valid whatever the clock of an unpacked source file says.
    """
    modes = ["--invalidation-mode", "unchecked-hash", "-q", "-j", "0"]
    lib = python / "lib" / f"python{version}"
    # Some packages carry sources of other Pythons or templates, which cannot be compiled.
    run([python / "bin" / "python3", "-I", "-c", _COMPILE, *modes, lib])


_COMPILE = "import compileall, sys; sys.argv[0] = 'compileall'; compileall.main()"


def _runs(tag: str, system: str) -> bool:
    if tag == "any":
        return True
    if system == "linux":
        found = _LINUX_TAG.fullmatch(tag)
        return found is not None and found[2] == platform.machine()
    macos = _MACOS_TAG.fullmatch(tag)
    return (
        macos is not None
        and (int(macos[1]), int(macos[2])) <= LEAST_MACOS
        and macos[3] in _MAC_MACHINES
    )


def _take_out(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
