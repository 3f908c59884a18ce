"""What benchmarks measure, and what they measure it with."""
