"""Look at an installation: what a study of this configuration needs here, what is there, and how to get the rest."""
