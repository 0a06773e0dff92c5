"""The grammar of the command line: commands, their options, and their help. Runs nothing."""
