"""The frame of every change: an intent, the wizard's steps, the preview, the question, the answer."""
