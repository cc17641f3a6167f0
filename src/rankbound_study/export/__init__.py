"""A study's kept scores as TREC files: runs and qrels that any evaluator reads."""
