"""From a key to an answer: the workflows that put wizards and questions together."""
