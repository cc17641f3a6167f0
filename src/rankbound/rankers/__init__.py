"""Rankers that are fitted without gradients of a loss: Ranking SVM, AdaRank, RankBoost and coordinate ascent."""
