"""Watermarking methods, a module or package each.

A method holds its rule, its statistics and their arithmetic. It imports no other method; what
several share is in ``_shared``.
"""
