"""What nodes, GPUs and what they share went through."""
