"""`python -m tfcluster`."""

if __name__ == "__main__":
    from tfcluster.entry import main

    raise SystemExit(main())
