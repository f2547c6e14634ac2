"""Tasks as containers, on one Docker engine or several."""
