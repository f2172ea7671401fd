"""`python -m services.cli` is `exitsign`."""

from services.cli.main import main

if __name__ == "__main__":
    main()
