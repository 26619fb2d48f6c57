"""Texts to verdicts: reading, the search among keys, the detector."""
