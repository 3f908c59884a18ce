"""What planners are asked and propose: cost, impact and rehearsal."""
