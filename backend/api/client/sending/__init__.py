"""How a client sends: by httpx or the standard library, with its credential and its trust."""
