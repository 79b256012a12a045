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
def test_the_examples_of_a_command_are_lines_that_it_takes(name: str, command: click.Command) -> None:
    examples, every = examples_of(command), dict(commands())
    assert examples
    for line in examples:
        words = shlex.split(line)
        assert words[0] == "distembed"
        assert not name or words[1] == name
        every[words[1]].make_context(words[1], words[2:])
    assert all(f"  {line}\n" in run(*name.split(), "--help").output for line in examples)


def test_a_command_is_listed_with_the_first_sentence_of_its_help() -> None:
    """The list is printed without importing the commands, so that it holds their first sentences again."""
    sentences = {name: command.get_short_help_str(200) for name, command in commands()}
    listed = {name: text for group in COMMANDS.values() for name, (_, text) in group.items()}
    assert sentences == listed


def test_every_command_is_listed_on_one_line_of_80_characters() -> None:
    lines = run("--help").output.splitlines()
    for group in COMMANDS.values():
        for name, (_, sentence) in group.items():
            assert any(line.split(maxsplit=1) == [name, sentence] for line in lines)
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("distembed ver", "verify"),
        ("distembed new wor", "wordspaces"),
        ("distembed run --sched", "--scheduler"),
    ],
)
def test_a_shell_completes_commands_systems_and_options(words: str, offered: str) -> None:
    asked = {"_DISTEMBED_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = CliRunner().invoke(cli, prog_name="distembed", env=asked)
    assert f"plain,{offered}" in done.stdout.splitlines()


def test_a_shell_completes_job_files() -> None:
    run_command = dict(commands())["run"]
    parameter = next(each for each in run_command.params if each.name == "text")
    (item,) = parameter.shell_complete(click.Context(run_command), "jo")
    assert item.type == "file"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            "rum job.toml",
            "there is no command 'rum'; did you mean run? (distembed --help shows what it takes)",
        ),
        ("run", "missing argument 'JOB' (distembed run --help shows what it takes)"),
        ("run job.toml --nope", "no such option '--nope' (distembed run --help shows what it takes)"),
    ],
)
def test_a_line_that_is_typed_wrongly_ends_with_one_sentence(words: str, sentence: str) -> None:
    done = run(*words.split())
    assert (done.exit_code, done.output) == (2, f"distembed: {sentence}\n")


@pytest.mark.parametrize("name", ["", *(name for group in COMMANDS.values() for name in group)])
def test_help_fits_a_screen_of_40_lines(name: str) -> None:
    done = CliRunner().invoke(cli, [*name.split(), "--help"], terminal_width=78)
    assert len(done.output.splitlines()) <= 40
