"""Opens saved files of many formats, with one answer or many."""
