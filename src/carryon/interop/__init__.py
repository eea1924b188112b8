"""Doors to other tools. Each module is imported by itself: those for hosted models need no torch."""
