"""Fitted arrays in files, in one format: profiles of natural text and small networks.

The files that are shipped lie here too. Code that fits the arrays is in ``research/`` or behind a
command; encoder weights belong to ``models``.
"""
