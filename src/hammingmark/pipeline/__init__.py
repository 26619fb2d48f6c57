"""The two flows: text to verdict, prompt to marked text."""
