"""Text to sentences, by one rule for generation and detection."""
