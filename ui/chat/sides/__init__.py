"""One question answered twice, in two columns: the settings that differ, and both answers."""
