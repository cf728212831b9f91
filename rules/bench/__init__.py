"""`inquest bench`: how fast the engine reads, and how often it is right beside simple baselines."""

from rules.bench.command import bench

__all__ = ["bench"]
