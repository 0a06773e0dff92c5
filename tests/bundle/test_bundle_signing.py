"""Signing an app: what is code, what it was made for, and in which order it is signed."""

import struct
from pathlib import Path

from assets.bundle.mac import (
    code_in,
    command,
    in_order,
    is_code,
    least_systems,
    mend_frameworks,
)

ARM, INTEL = 0x0100000C, 0x01000007
LIBRARY, OBJECT = 6, 1


def thin(machine: int, least: tuple[int, int], kind: int = LIBRARY) -> bytes:
    """Return a library's first bytes: its head, an empty command and the one with its system."""
    version = least[0] << 16 | least[1] << 8
    commands = struct.pack("<II8x", 0x1B, 16) + struct.pack("<IIIIII", 0x32, 24, 1, version, 0, 0)
    return struct.pack("<8I", 0xFEEDFACF, machine, 0, kind, 2, len(commands), 0, 0) + commands


def fat(*parts: bytes) -> bytes:
    """Return a file with several machines' parts."""
    head, body, at = struct.pack(">II", 0xCAFEBABE, len(parts)), b"", 4096
    for part in parts:
        machine = struct.unpack_from("<I", part, 4)[0]
        head += struct.pack(">5I", machine, 0, at + len(body), len(part), 12)
        body += part
    return head.ljust(at, b"\0") + body


def write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_a_library_says_for_which_system_it_was_made(tmp_path: Path) -> None:
    library = write(tmp_path / "one.so", thin(ARM, (14, 0)))
    assert is_code(library)
    assert least_systems(library) == {"arm64": (14, 0)}
    both = write(tmp_path / "two.so", fat(thin(INTEL, (13, 0)), thin(ARM, (26, 1))))
    assert least_systems(both) == {"x86_64": (13, 0), "arm64": (26, 1)}


def test_the_inside_is_signed_first_then_frameworks_then_the_app(tmp_path: Path) -> None:
    app = tmp_path / "Fullstop.app"
    inside = app / "Contents" / "Resources" / "python" / "lib"
    framework = inside / "Qt" / "QtCore.framework" / "Versions" / "A"
    code = [
        app / "Contents" / "MacOS" / "Fullstop",
        inside / "libpython3.12.dylib",
        inside / "site-packages" / "mlx" / "core.so",
        framework / "QtCore",
        framework / "Helpers" / "helper",
        framework / "libbeside.dylib",
    ]
    assert in_order(app, code) == [
        framework / "Helpers" / "helper",
        framework / "libbeside.dylib",
        inside / "site-packages" / "mlx" / "core.so",
        inside / "libpython3.12.dylib",
        framework,
        app,
    ]


def test_only_a_real_signature_asks_for_the_hardened_runtime() -> None:
    app = Path("Fullstop.app")
    assert command(app, "-") == ["codesign", "--force", "--sign", "-", app]
    named = command(app, "Developer ID Application: Somebody")
    assert "Developer ID Application: Somebody" in named
    assert named[-4:] == ["--options", "runtime", "--timestamp", app]
    assert "--deep" not in named


def test_a_framework_out_of_a_wheel_gets_its_links_back(tmp_path: Path) -> None:
    framework = tmp_path / "Qt" / "lib" / "QtCore.framework"
    write(framework / "Versions" / "A" / "QtCore", thin(ARM, (14, 0)))
    write(framework / "Versions" / "A" / "Resources" / "Info.plist", b"the real one")
    write(framework / "Resources" / "Info.plist", b"a copy that would break the seal")
    for _ in range(2):  # twice is as good as once
        mend_frameworks(tmp_path)
        assert sorted(path.name for path in framework.iterdir()) == [
            "QtCore",
            "Resources",
            "Versions",
        ]
        assert (framework / "Resources").is_symlink()
        assert (framework / "Resources" / "Info.plist").read_bytes() == b"the real one"
        assert (framework / "Versions" / "Current").readlink() == Path("A")
        assert code_in(tmp_path) == [framework / "Versions" / "A" / "QtCore"]
