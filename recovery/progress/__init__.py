"""How far workloads got, and what is detected from it: crashes, hangs, stragglers."""
