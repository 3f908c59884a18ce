"""The journal in znodes, and KIP-179's removal records next to it."""
