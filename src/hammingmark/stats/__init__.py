"""Null distributions, tests, p-values and passages: functions of arrays.

Nothing here knows a method or a model, or does input or output. Arithmetic that serves a single
method belongs to that method.
"""
