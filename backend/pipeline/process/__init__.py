"""What a process of the pipeline has in common with the others: its lines, and its end."""
