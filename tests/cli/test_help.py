"""The help of every command ends with examples, which are lines that it takes, and a shell completes it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from distembed.cli.main import COMMANDS, cli
from tests.commands import run


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every command by its name."""
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command
        yield name, command


def examples_of(command: click.Command) -> list[str]:
    """Return the lines below "Examples:" in the help of a command."""
    _, _, lines = (command.epilog or "").partition("Examples:\n")
    return [line.strip() for line in lines.splitlines()]


@pytest.mark.parametrize(("name", "command"), [("", cli), *commands()], ids=lambda value: str(value) or "all")
def test_the_help_of_a_command_fits_a_screen_and_its_examples_are_lines_that_it_takes(
    name: str, command: click.Command
) -> None:
    examples, every = examples_of(command), dict(commands())
    assert examples
    for line in examples:
        words = shlex.split(line)
        assert words[0] == "distembed"
        assert not name or words[1] == name
        every[words[1]].make_context(words[1], words[2:])
    helped = CliRunner().invoke(cli, [*name.split(), "--help"], terminal_width=78).output
    assert all(f"  {line}\n" in helped for line in examples)
    assert len(helped.splitlines()) <= 40


def test_every_command_is_listed_on_one_line_of_80_characters_with_the_first_sentence_of_its_help() -> None:
    """The list is printed without importing the commands, so that it holds their first sentences again."""
    sentences = {name: command.get_short_help_str(200) for name, command in commands()}
    listed = {name: text for group in COMMANDS.values() for name, (_, text) in group.items()}
    assert sentences == listed
    lines = run("--help").output.splitlines()
    assert max(map(len, lines)) <= 80
    assert {(*sentence,) for sentence in listed.items()} <= {(*line.split(maxsplit=1),) for line in lines}


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("distembed ver", "plain,verify"),
        ("distembed new wor", "plain,wordspaces"),
        ("distembed run --sched", "plain,--scheduler"),
        ("distembed run jo", "file,jo"),
    ],
)
def test_a_shell_completes_commands_systems_options_and_files(words: str, offered: str) -> None:
    asked = {"_DISTEMBED_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = CliRunner().invoke(cli, prog_name="distembed", env=asked)
    assert offered in done.stdout.splitlines()
