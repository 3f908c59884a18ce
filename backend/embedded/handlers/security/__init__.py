"""Who may ask what: SASL, and the rights that each API needs."""
