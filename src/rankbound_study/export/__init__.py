"""Export a study's kept scores as TREC runs and qrels for any evaluator."""
