"""Methods that mark by the choice of sentences."""
