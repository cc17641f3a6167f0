"""Models of the study as modules of torch: layers, and a network of pictures."""
