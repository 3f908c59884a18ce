"""The audit in the journal: its lines, and which step of an operation is one."""
