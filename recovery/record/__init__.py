"""The incident record: one file with all that is needed to understand an attempt's verdict elsewhere, offline."""
