"""Evaluation over many texts: data sets, prompts, stages, metrics, tables.

Verdicts on single texts belong to ``detection``.
"""
