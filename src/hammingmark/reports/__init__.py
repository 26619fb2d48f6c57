"""A verdict for people: as text, as a dated report, and as a page to print or keep."""
