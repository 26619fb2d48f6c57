"""Language models that propose sentences."""
