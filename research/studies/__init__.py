"""Studies of the evidence of the mark, its cost, and attacks on it."""
