"""Read and write judged lists, TREC runs and qrels, and models; every file is written atomically."""
