"""Arithmetic: pure functions on arrays, and the closed forms they are held to."""
