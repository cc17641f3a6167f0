"""Training rankers on one's own lists: the trainer, its small models, and `Ranker`, which scores and is saved."""
