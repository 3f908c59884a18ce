"""Pure decisions on moves: what starts, waits, is held back, goes back."""
