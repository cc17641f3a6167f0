"""The configuration's sections as typed models: every key with its type, its limits and its meaning."""
