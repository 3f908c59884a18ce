"""The shared admin backend of kshunt: a library, an HTTP service and the command-line tools."""
