"""Where results lie, and how a run or a batch puts its own there at one moment."""
