"""What an attacker learns of a key from marked texts."""
