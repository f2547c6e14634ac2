"""The launcher: the parent process of every task's program, on every backend.

Written as a package, shipped as one file: `bundle.source()` joins the modules named in
`bundle.MODULES`. Those use the standard library only and run under Python 3.8.
"""
