"""`python -m quorate` is `quorate`."""

from quorate.cli.main import main

if __name__ == "__main__":
    main()
