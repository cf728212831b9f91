"""What acts on schedulers: the dispatcher, looking at what came of it, the watchdog."""
