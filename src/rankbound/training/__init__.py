"""Train rankers on judged lists: the trainer, its small models, and `Ranker`, a trained model that can be saved."""
