"""Where people see and decide: the queue of proposals, guards, exclusions, and how often recovery was wrong."""
