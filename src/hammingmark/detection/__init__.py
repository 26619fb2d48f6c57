"""Texts to verdicts: reading a text, searching keys, the detector.

Scores and tests come from the methods, p-values from ``stats``; neither is computed here.
"""
