"""Model files: what there is, where it comes from, and the proof that it is the right one."""
