"""One's own files in and out: judged lists, TREC runs and qrels, models; whole or not at all."""
