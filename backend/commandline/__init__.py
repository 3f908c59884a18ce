"""What can be typed: tables of commands, and the one reader of command lines."""
