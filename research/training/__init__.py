"""Data for fine-tuning a sentence encoder; scripts of this repository, not part of the package."""
