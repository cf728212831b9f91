"""Settings of the engine's tests."""

from hypothesis import settings

# A loaded machine is slow, not wrong: no example has a deadline.
settings.register_profile("engine", deadline=None)
settings.load_profile("engine")
