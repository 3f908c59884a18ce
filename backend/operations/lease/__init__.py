"""Which of several backends is active, and its membership among them."""
