"""The attribution engine and its catalogue: pure Python, knows neither Django nor the database."""
