"""One's own files in and out: judged lists, TREC runs and qrels, their evaluation."""
