"""From raw archives to the lists that training reads; it knows nothing of losses or models."""
