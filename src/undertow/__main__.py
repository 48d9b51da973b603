"""`python -m undertow`."""

from undertow.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
