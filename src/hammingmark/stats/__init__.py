"""Null distributions, tests, p-values and passages, computed from arrays.

Code here knows no method and no model, and does no input or output. Arithmetic that only one method
uses belongs to that method.
"""
