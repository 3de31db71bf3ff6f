"""`python -m adjudge` is `adjudge`."""

from adjudge.cli.main import main

if __name__ == "__main__":
    main()
