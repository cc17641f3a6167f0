"""The functions of steps that no other room has; `steps.toml` lists all steps."""
