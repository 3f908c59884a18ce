"""What all tools share: flags, reports, exit codes, files, a backend."""
