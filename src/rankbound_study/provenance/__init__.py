"""Where results come from: a record of every step, a manifest of all of them, and checks of a folder against both."""
