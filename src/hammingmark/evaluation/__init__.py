"""Metrics over many texts: detection rates, quality, cost.

Verdicts on single texts belong to ``detection``.
"""
