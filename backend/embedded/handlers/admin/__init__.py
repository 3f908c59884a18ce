"""Topics, configurations, ACLs, moves and directories: what administrators ask brokers."""
