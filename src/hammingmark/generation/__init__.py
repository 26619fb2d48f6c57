"""Prompts to marked texts: the rejection loop, candidates, stages, the engine for many callers.

Models belong to ``backends``, the rule for a candidate to its method.
"""
