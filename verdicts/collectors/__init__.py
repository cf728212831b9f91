"""Reading clusters: one module per system, each with the settings of its sources and what it does with them."""
