"""Watermark methods, one file each."""
