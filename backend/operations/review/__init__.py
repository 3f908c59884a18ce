"""Before a change: preview, blast radius, second person; in addition to it: claims."""
