"""The project's documents as tests read them: their sentences, and their blocks of code."""
