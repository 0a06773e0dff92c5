"""Puts a Python that can be moved into a bundle, and the program that starts it.

The best one is python-build-standalone, fetched by uv: made to be moved, and to run on old systems.
Where it cannot be fetched, a Linux bundle takes the Python that runs the build, with the libraries
that it needs beside it; such a bundle runs on systems at least as new as this one.
"""

import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from assets.bundle.commands import BuildFailed, run
from assets.bundle.product import Layout

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
