"""Numbers about many texts: how well they are told apart, how they read, what they cost."""
