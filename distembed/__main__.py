"""The program `distembed`, and ``python -m distembed``: the command line, which an interrupt ends at any moment."""

from __future__ import annotations

from distembed.stopping import end_stopped


def main() -> None:
    """Run the command line; an interrupt ends it with a sentence, also while it is imported."""
    try:
        from distembed.cli.main import main as run  # noqa: PLC0415 - an interrupt here is one of the command

        run()
    except KeyboardInterrupt:
        end_stopped()


if __name__ == "__main__":
    main()
