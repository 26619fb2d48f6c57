"""Watermarking methods, one module or package each.

A method contains its rule, its statistics and their arithmetic. It imports no other method; code
that several methods share is in ``_shared``.
"""
