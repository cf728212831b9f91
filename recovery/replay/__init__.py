"""Replay: stored attempts concluded again under other rules or with other evidence, changing nothing."""
