"""What a Mac wants to know of an app: property lists and the icon. Writes files, runs nothing."""

import plistlib
from typing import Any

from assets.bundle import icns
from assets.bundle.product import (
    ICONS,
    IDENTIFIER,
    LEAST_MACOS,
    NAME,
    RUN_SUFFIX,
    RUN_TYPE,
    Layout,
)

_ICON = f"{NAME}.icns"
_LOCAL_NETWORK = (
    "Fullstop answers other devices on your network only while you make its server visible to "
    "them, and asks other servers there only when you probe one."
)


def info(version: str) -> dict[str, Any]:
    """Return the content of ``Info.plist``.

    Args:
        version: The product's version, as ``0.1.0``.
    """
    return {
        "CFBundleDevelopmentRegion": "en",
        "CFBundleDisplayName": NAME,
        "CFBundleDocumentTypes": [
            {
                "CFBundleTypeName": "Saved run of Fullstop",
                "CFBundleTypeRole": "Viewer",
                "LSHandlerRank": "Owner",
                "LSItemContentTypes": [RUN_TYPE],
            },
            {
                # What the inspector saves is JSON by name as well.
                "CFBundleTypeName": "JSON",
                "CFBundleTypeRole": "Viewer",
                "LSHandlerRank": "Alternate",
                "LSItemContentTypes": ["public.json"],
            },
        ],
        "CFBundleExecutable": NAME,
        "CFBundleIconFile": _ICON,
        "CFBundleIdentifier": IDENTIFIER,
        "CFBundleInfoDictionaryVersion": "6.0",
        "CFBundleName": NAME,
        "CFBundlePackageType": "APPL",
        "CFBundleShortVersionString": version,
        "CFBundleSupportedPlatforms": ["MacOSX"],
        "CFBundleVersion": version,
        "LSApplicationCategoryType": "public.app-category.developer-tools",
        "LSArchitecturePriority": ["arm64"],
        "LSMinimumSystemVersion": ".".join(map(str, LEAST_MACOS)),
        "LSRequiresNativeExecution": True,
        "NSHighResolutionCapable": True,
        "NSLocalNetworkUsageDescription": _LOCAL_NETWORK,
        "NSPrincipalClass": "NSApplication",
        "NSSupportsAutomaticGraphicsSwitching": True,
        "UTExportedTypeDeclarations": [
            {
                "UTTypeConformsTo": ["public.json"],
                "UTTypeDescription": "Saved run of Fullstop",
                "UTTypeIdentifier": RUN_TYPE,
                "UTTypeTagSpecification": {"public.filename-extension": [RUN_SUFFIX]},
            }
        ],
    }


def login_agent() -> dict[str, Any]:
    """Return the content of the agent that starts the app, hidden, when a person logs in.

    It names the app, not its place, so that it goes on working when the app is moved.
    """
    return {
        "Label": f"{IDENTIFIER}.login",
        "LimitLoadToSessionType": "Aqua",
        "ProcessType": "Interactive",
        "ProgramArguments": ["/usr/bin/open", "-g", "-j", "-b", IDENTIFIER],
        "RunAtLoad": True,
    }


def write_files(layout: Layout, version: str) -> None:
    """Write property lists and icon into an app."""
    contents = layout.root / "Contents"
    agents = contents / "Library" / "LaunchAgents"
    agents.mkdir(parents=True)
    (contents / "Info.plist").write_bytes(plistlib.dumps(info(version)))
    (contents / "PkgInfo").write_bytes(b"APPL????")
    (agents / f"{IDENTIFIER}.login.plist").write_bytes(plistlib.dumps(login_agent()))
    pictures = {side: (ICONS / f"{side}.png").read_bytes() for side in icns.SIDES}
    (layout.resources / _ICON).write_bytes(icns.packed(pictures))
