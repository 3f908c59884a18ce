"""Theme files (TOML), shipped with the wheel."""
