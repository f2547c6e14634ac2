"""A person's code on its way to every task: which files, whether they may go, one archive."""
