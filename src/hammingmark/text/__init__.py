"""Text to sentences and words, by one rule for generation and detection."""
