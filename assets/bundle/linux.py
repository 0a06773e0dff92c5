"""What a Linux desktop wants to know of a program: entries and icons. Writes files only."""

import shutil

from assets.bundle.mac import SIDES
from assets.bundle.product import COMMAND, ICONS, NAME, RUN_MIME, RUN_SUFFIX, SUMMARY, Layout

_LARGEST_THEME_ICON = 512


def desktop_entry(*, is_autostart: bool = False) -> str:
    """Return the entry of the menu, or the one that starts the program at login.

    ``fullstop`` is found on the path: a link to the bundle's program there makes it work.
    """
    fields = {
        "Type": "Application",
        "Name": NAME,
        "Comment": SUMMARY,
        "Exec": COMMAND if is_autostart else f"{COMMAND} %f",
        "Icon": COMMAND,
        "Terminal": "false",
        "StartupWMClass": COMMAND,
    }
    if is_autostart:
        fields["X-GNOME-Autostart-enabled"] = "true"
    else:
        fields["MimeType"] = f"{RUN_MIME};"
        fields["Categories"] = "Development;Utility;"
        fields["Keywords"] = "chat;language model;server;"
    lines = [f"{name}={value}" for name, value in fields.items()]
    return "\n".join(["[Desktop Entry]", *lines]) + "\n"


def mime_package() -> str:
    """Return what tells the desktop which files are saved runs."""
    return f"""\
<?xml version="1.0" encoding="UTF-8"?>
<mime-info xmlns="http://www.freedesktop.org/standards/shared-mime-info">
  <mime-type type="{RUN_MIME}">
    <comment>Saved run of {NAME}</comment>
    <sub-class-of type="application/json"/>
    <glob pattern="*.{RUN_SUFFIX}"/>
    <icon name="{COMMAND}"/>
  </mime-type>
</mime-info>
"""


def write_files(layout: Layout) -> None:
    """Write menu entry, autostart entry, type of saved runs and icons into a bundle."""
    share = layout.resources
    texts = {
        f"applications/{COMMAND}.desktop": desktop_entry(),
        f"mime/packages/{COMMAND}.xml": mime_package(),
        f"autostart/{COMMAND}.desktop": desktop_entry(is_autostart=True),
    }
    for name, text in texts.items():
        (share / name).parent.mkdir(parents=True, exist_ok=True)
        (share / name).write_text(text, encoding="utf-8")
    for side in SIDES:
        if side <= _LARGEST_THEME_ICON:
            folder = share / "icons" / "hicolor" / f"{side}x{side}" / "apps"
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ICONS / f"{side}.png", folder / f"{COMMAND}.png")
