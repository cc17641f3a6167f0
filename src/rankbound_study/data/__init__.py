"""Data from raw archives to the lists that training reads, independent of losses and models."""
