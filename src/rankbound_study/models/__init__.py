"""The study's models: a factorisation, networks of pictures, trees, penalised regressions, and controls."""
