"""Studies of what the mark proves, what it costs, and what attackers can do to it."""
