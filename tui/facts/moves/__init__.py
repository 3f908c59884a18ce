"""Parts of progress: plans, copies that wait, moves that have ended, shares that were reached."""
