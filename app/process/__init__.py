"""The process: its signals and end, output, logs, open files, and the programs that it started."""
