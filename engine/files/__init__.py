"""JSON texts and files: read field by field, written whole or not at all."""
