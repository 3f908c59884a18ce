"""How values are written in characters: amounts, rates, durations, bars and plots."""
