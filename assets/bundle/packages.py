"""What the bundle contains: the interpreter, the packages, and their licences."""

import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

from assets.bundle.product import LEAST_MACOS, ROOT, BuildFailed, Layout, run

# Puts a Python that can be moved into a bundle, and the program that starts it.
#
# The best one is python-build-standalone, fetched by uv: made to be moved, and to run on old
# systems. Where it cannot be fetched, a Linux bundle takes the Python that runs the build, with
# the libraries that it needs beside it; such a bundle runs on systems at least as new as this
# one.

# Parts of the standard library that a program never needs.
_LEFT_OUT = (
    "__pycache__",
    "config-*",
    "ensurepip",
    "idlelib",
    "lib2to3",
    "site-packages",
    "test",
    "tests",
    "tkinter",
    "turtledemo",
    "_tkinter*",
    "_test*",
    "xxlimited*",
)
# What every Linux has, and must have in one version for all.
_SYSTEMS_OWN = re.compile(
    r"lib(c|m|dl|rt|pthread|util|crypt|resolv|nsl|gcc_s|stdc\+\+)\.so|ld-linux|linux-vdso|libpython"
)


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python to be copied.

    Attributes:
        prefix: The folder that has its ``bin`` and ``lib``.
        version: As ``3.12``.
    """

    prefix: Path
    version: str


def found(given: Path | None, version: str, scratch: Path) -> Interpreter:
    """Return the Python to put into a bundle.

    Args:
        given: The prefix of a python-build-standalone that is already here.
        version: What to fetch otherwise, as ``3.12``.
        scratch: Where to fetch it to.

    Raises:
        BuildFailed: There is none.
    """
    if given is not None:
        return Interpreter(given, _version_of(given))
    # An environment that is not activated is not on the path.
    uv = shutil.which("uv", path=Path(sys.executable).parent) or shutil.which("uv")
    problem = "uv is not installed"
    if uv is not None:
        try:
            run([uv, "python", "install", "--no-bin", "--install-dir", scratch, version])
            (prefix,) = {
                path.resolve().parents[1] for path in scratch.glob("cpython-*/bin/python3")
            }
            return Interpreter(prefix, version)
        except BuildFailed as failed:
            problem = str(failed).splitlines()[-1]
    if sys.platform != "linux":
        raise BuildFailed(
            f"no Python that can be moved was found ({problem}). Install uv "
            "(pip install uv), or name an unpacked python-build-standalone with --python FOLDER."
        )
    prefix = Path(sys.base_prefix)
    print(f"no python-build-standalone ({problem}): taking {prefix}")
    return Interpreter(prefix, _version_of(prefix))


def copy(interpreter: Interpreter, target: Path) -> None:
    """Copy what a program needs of a Python: its library and its standard library."""
    name = f"python{interpreter.version}"
    shutil.copytree(
        interpreter.prefix / "lib" / name,
        target / "lib" / name,
        ignore=shutil.ignore_patterns(*_LEFT_OUT),
    )
    (target / "lib" / name / "site-packages").mkdir()
    (target / "bin").mkdir()
    for library in (interpreter.prefix / "lib").glob(f"libpython{interpreter.version}.*"):
        if library.suffix != ".a" and not library.is_symlink():
            shutil.copy2(library, target / "lib" / library.name)
    if sys.platform == "linux":
        # Of a Python that was made to be moved neither finds anything to do.
        _bring_libraries(target / "lib", interpreter.prefix / "lib")
        _look_in_bundle(target / "lib", interpreter.prefix / "lib")


def compile_launchers(interpreter: Interpreter, layout: Layout) -> None:
    """Compile the program that a person starts, and the plain interpreter beside its library."""
    layout.program.parent.mkdir(parents=True, exist_ok=True)
    _compile(interpreter, layout.program, layout.python_below_program)
    _compile(interpreter, layout.python / "bin" / "python3", "..", "-DPLAIN_PYTHON")


def _compile(interpreter: Interpreter, output: Path, below: str, *options: str) -> None:
    prefix, name = interpreter.prefix, f"python{interpreter.version}"
    home = f"{below}/lib"
    words: list[str | Path] = ["cc", "-O2", f'-DPYTHON_BELOW="{below}"', *options]
    words += ["-I", prefix / "include" / name, Path(__file__).parent / "launcher.c", "-o", output]
    words += ["-L", prefix / "lib", f"-l{name}"]
    if sys.platform == "darwin":
        words += ["-mmacosx-version-min=14.0", "-arch", "arm64"]
        words += [f"-Wl,-rpath,@executable_path/{home}", "-Wl,-headerpad_max_install_names"]
    else:
        # The old kind of path also serves the libraries that the library needs.
        words += ["-Wl,--disable-new-dtags", f"-Wl,-rpath,$ORIGIN/{home}"]
    run(words)
    if sys.platform == "darwin":
        _look_beside(output, name)


def _look_beside(program: Path, name: str) -> None:
    """Make a Mac program look for Python's library where the bundle has it."""
    for line in run(["otool", "-L", program]).splitlines()[1:]:
        library = line.split()[0]
        if f"lib{name}" in library and not library.startswith("@rpath/"):
            wanted = f"@rpath/{Path(library).name}"
            run(["install_name_tool", "-change", library, wanted, program])
    # It runs before the app is signed, and no Mac runs what was changed since it was signed.
    run(["codesign", "--force", "--sign", "-", program])


def _modules(lib: Path) -> list[Path]:
    return [*lib.rglob("lib-dynload/*.so"), *lib.glob("libpython*.so*")]


def _bring_libraries(lib: Path, own: Path) -> None:
    """Copy the system's libraries that Python's modules need, such as OpenSSL's."""
    needed: dict[str, Path] = {}
    for module in _modules(lib):
        for line in run(["ldd", module]).splitlines():
            name, arrow, place = line.strip().partition(" => ")
            if arrow and not _SYSTEMS_OWN.match(name) and place.startswith("/"):
                needed[name] = Path(place.partition(" (")[0]).resolve()
    for name, path in needed.items():
        if path.parent != own:
            shutil.copy2(path, lib / name)


def _look_in_bundle(lib: Path, own: Path) -> None:
    """Make Python's modules look for libraries in the bundle, not where Python was built.

    The place stands in the file as text that ends in a zero; a shorter one takes its room.
    """
    before = str(own).encode()
    for module in _modules(lib):
        content = module.read_bytes()
        after = b"$ORIGIN" if module.parent == lib else b"$ORIGIN/../.."
        if before + b"\0" in content and len(after) <= len(before):
            padded = after.ljust(len(before), b"\0")
            module.write_bytes(content.replace(before + b"\0", padded + b"\0"))


def _version_of(prefix: Path) -> str:
    with tempfile.TemporaryDirectory() as elsewhere:
        code = "import sys; print('.'.join(map(str, sys.version_info[:2])))"
        return run([prefix / "bin" / "python3", "-I", "-c", code], folder=Path(elsewhere)).strip()


# Installs Fullstop and what it needs into a bundle's Python, and checks what came.
#
# Only wheels are taken, never anything that would be compiled here; their tags must say that they
# run on the oldest system that the product supports. Packages stay where pip puts them: MLX finds
# its Metal library beside its own one.

_MACOS_TAG = re.compile(r"macosx_(\d+)_(\d+)_(\w+)")
_MAC_MACHINES = frozenset({"arm64", "universal2"})
_LINUX_TAG = re.compile(r"(manylinux|linux)\w*_(x86_64|aarch64)")
# Qt 6.12 itself is made for macOS 14.4 and later, whatever its wheel's tag says.
_ON_A_MAC = ("PySide6-Essentials<6.12",)
# For models that see. What mlx-vlm requires beside these (OpenCV, Arrow, SciPy) is never imported.
_VISION = ("mlx-vlm>=0.7.10,<0.8",)
_WITH_VISION = ("pillow>=11,<14", "requests>=2.32,<3")
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
    run([*command, wheel, *_WITH_VISION])
    run([*command, "--no-deps", *_VISION])
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


# Gathers the licences of everything inside a bundle into one text. Reads files, writes none.

_LICENCE_NAME = re.compile(r"(licen[cs]e|copying|notice|authors)", re.IGNORECASE)
_LINE = "=" * 78
_HEAD = """\
Fullstop contains the following software. Each part stands under its own licence, which follows
its name. Qt and PySide6 are used under the LGPL, version 3: their libraries are separate files in
this bundle and may be replaced by others.
"""
_NO_TEXT = "\nIt brings no text; those of common licences stand at the end.\n"


def gathered(site_packages: Path, python_licence: Path, common: Iterable[Path] = ()) -> str:
    """Return one text with the licence of Python and of each installed package.

    Args:
        site_packages: Where the packages are.
        python_licence: Python's own licence.
        common: Texts of licences that packages name without bringing them; they come last.
    """
    python = python_licence.read_text(encoding="utf-8", errors="replace")
    parts = [_HEAD, _part("Python", "Python Software Foundation License", [("LICENSE", python)])]
    for folder in sorted(site_packages.glob("*.dist-info"), key=lambda path: path.name.lower()):
        text = (folder / "METADATA").read_text(encoding="utf-8", errors="replace")
        about = HeaderParser().parsestr(text)
        name = f"{about['Name']} {about['Version']}"
        parts.append(_part(name, _stated(about), _texts(folder)))
    for file in sorted(common):
        text = file.read_text(encoding="utf-8")
        parts.append(_part(file.stem, "its text", [(file.name, text)]))
    return "\n".join(parts)


def _part(name: str, stated: str, texts: list[tuple[str, str]]) -> str:
    head = f"{_LINE}\n{name}\nLicence: {stated}\n{_LINE}\n"
    if not texts:
        return head + _NO_TEXT
    return head + "\n".join(f"\n--- {file}\n\n{text.strip()}\n" for file, text in texts)


def _stated(about: Message) -> str:
    """Return the licence that a package's metadata states, in a line."""
    if expression := about.get("License-Expression"):
        return str(expression)
    classified = [
        str(one).rpartition(" :: ")[2]
        for one in about.get_all("Classifier") or []
        if str(one).startswith("License :: ")
    ]
    lines = str(about.get("License") or "").strip().splitlines()
    # Some put the whole text there; its first line names it.
    return "; ".join(classified) or (lines[0].strip() if lines else "not stated")


def _texts(folder: Path) -> list[tuple[str, str]]:
    files = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and (_LICENCE_NAME.search(path.name) or path.relative_to(folder).parts[0] == "licenses")
    ]
    return [
        (path.relative_to(folder).as_posix(), path.read_text(encoding="utf-8", errors="replace"))
        for path in files
    ]
