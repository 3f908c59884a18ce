"""What a backend tells, as messages; the link is the only module that touches the network."""
