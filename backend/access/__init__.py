"""Who may ask a backend what: roles, tokens, and signed claims of an identity provider."""
