"""What several methods share: hashing, green lists, channels, counts."""
