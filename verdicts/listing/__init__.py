"""The verdict list: what can be looked for, in which order, page by page, as page, API and file."""
