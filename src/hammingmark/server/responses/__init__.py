"""The Responses API of OpenAI: its requests become chats, and the answers of chats responses."""
