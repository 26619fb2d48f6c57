"""Null distributions, tests and their p-values: arithmetic that knows no method and no model."""
