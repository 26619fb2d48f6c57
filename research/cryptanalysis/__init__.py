"""Estimating keys from marked texts, to know when a key has to be replaced."""
