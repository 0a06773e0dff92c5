"""A probe's report: as text, as data, as a page."""
