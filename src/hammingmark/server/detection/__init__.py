"""Verdicts on texts, and the keys by which they are found."""
