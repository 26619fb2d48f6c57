"""Named corpora of human text, and how their files are read."""
