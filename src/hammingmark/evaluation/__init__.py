"""Evaluation over many texts: data sets, prompts, stages, metrics, tables.

Single texts are judged in ``detection``.
"""
