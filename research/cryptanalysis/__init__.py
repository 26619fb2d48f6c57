"""Estimating keys from marked texts."""
