"""Changes to a text that try to hurt the mark and keep the meaning."""
