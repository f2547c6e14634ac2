"""Where the time of a run went: from what is kept of its tasks to spans, pictures and advice."""
