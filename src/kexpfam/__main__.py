"""`python -m kexpfam` is `kexpfam`."""

from kexpfam.cli import main

if __name__ == "__main__":
    main(prog_name="kexpfam")
