"""What views share: the screen of a view, of a table, of a board, and the head."""
