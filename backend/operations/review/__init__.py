"""Before a change: preview, blast radius, second person; beside it: claims."""
