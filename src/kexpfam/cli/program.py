"""The program: its commands, each loaded when it is called."""

import importlib

import click

import kexpfam

# Command, its module in this package, and the line of `kexpfam --help`: modules are
# imported one at a time, so that help and completion are there at once.
COMMANDS: dict[str, tuple[str, str]] = {
    "reproduce": ("reproduce", "Measure every table and figure of the paper again."),
}


class LazyGroup(click.Group):
    """Commands that are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"kexpfam.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(kexpfam.__version__, prog_name="kexpfam")
def main() -> None:
    """Whole distributions p(y|x) from a table."""
