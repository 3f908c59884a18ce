"""The frame of every change: intent, steps of the wizard, preview, question, answer."""
