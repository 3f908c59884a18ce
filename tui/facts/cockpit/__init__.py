"""What the parts of a large overview show, beside what `kshunt.tui.facts.overview` says."""
