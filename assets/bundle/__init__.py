"""Builds Fullstop as a program that needs nothing installed: an app on a Mac, a folder on Linux."""
