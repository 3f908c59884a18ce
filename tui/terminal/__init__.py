"""The terminal: output as differences, input, flow control, signals."""
