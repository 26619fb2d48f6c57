"""Fitted arrays in files of one format: profiles of natural text and small networks.

The files that the package ships are here, too. Code that fits the arrays belongs to ``assembly/``
or ``research/``, and encoder weights to ``models/``.
"""
