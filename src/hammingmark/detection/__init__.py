"""From texts to verdicts: readers, the search of keys, the detector.

Scores and tests come from the methods, p-values from ``stats``; neither is computed here.
"""
