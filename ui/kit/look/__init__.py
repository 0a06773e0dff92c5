"""Colors, icons, sizes and the theme."""
