"""The program: its commands, each loaded when it is called."""

import importlib
from typing import Any

import click
from click.shell_completion import get_completion_class

import kexpfam
from kexpfam._interrupts import hear_interrupts
from kexpfam.cli.shared import command, examples, guarded

# Command, its module in this package, and the line of `kexpfam --help`: modules are
# imported one at a time, so that help and completion are there at once.
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("demo", "See on real data what this is about."),
    "fit": ("fit", "Learn p(target | features) from a table."),
    "evaluate": ("evaluate", "Scores of a model on rows that it has not seen."),
    "predict": ("predict", "Mean, quantiles and intervals for each row of a table."),
    "sample": ("predict", "Draw from p(target | features) for each row of a table."),
    "plot": ("plot", "Pictures of p(target | features), and of its calibration."),
    "explain": ("explain", "Which columns matter, and why a row has its density."),
    "explore": ("explore", "A local page where p(target | features) follows sliders."),
    "completion": ("program", "Let a shell complete commands and columns."),
}


class LazyGroup(click.Group):
    """Commands that are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"kexpfam.cli.{COMMANDS[cmd_name][0]}")
        found: click.Command = getattr(module, f"{cmd_name}_command")
        return found

    def invoke(self, ctx: click.Context) -> Any:
        with guarded():
            hear_interrupts()
            return super().invoke(ctx)

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "kexpfam demo",
        "kexpfam fit houses.csv --target price",
        "kexpfam plot model.kexpfam houses.csv -o picture.png",
    ),
)
@click.version_option(kexpfam.__version__, prog_name="kexpfam")
def main() -> None:
    """Whole distributions p(y|x) from a table.

    Exit codes: 0 all is well, 1 a file or its content is wrong, 2 the command is,
    130 interrupted. KEXPFAM_DEBUG=1 shows where an error came from.
    """


@command(
    "completion",
    "kexpfam completion bash >> ~/.bashrc",
    "kexpfam completion zsh >> ~/.zshrc",
    "kexpfam completion fish > ~/.config/fish/completions/kexpfam.fish",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print what makes SHELL complete commands, options and names of columns."""
    kind = get_completion_class(shell)
    assert kind is not None
    program = ctx.find_root().command
    click.echo(kind(program, {}, "kexpfam", "_KEXPFAM_COMPLETE").source())
