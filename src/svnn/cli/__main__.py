"""``python -m svnn.cli``."""

from svnn.cli import main

if __name__ == "__main__":
    main()
