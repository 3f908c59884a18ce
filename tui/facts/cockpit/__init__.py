"""What the parts of a large overview show, in addition to `kshunt.tui.facts.overview`."""
