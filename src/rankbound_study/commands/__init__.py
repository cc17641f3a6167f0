"""The functions of steps that no other room has; `rankbound_study.steps` lists all steps."""
