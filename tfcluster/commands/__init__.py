"""One module per verb; each holds a function `command`."""
