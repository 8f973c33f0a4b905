"""`kexpfam completion`: the script that lets a shell complete commands."""

import click
from click.shell_completion import get_completion_class

from kexpfam.cli.options import examples


@click.command(
    epilog=examples(
        "kexpfam completion bash >> ~/.bashrc",
        "kexpfam completion zsh >> ~/.zshrc",
        "kexpfam completion fish > ~/.config/fish/completions/kexpfam.fish",
    )
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what makes SHELL complete commands, options and names of columns."""
    kind = get_completion_class(shell)
    assert kind is not None
    program = ctx.find_root().command
    click.echo(kind(program, {}, "kexpfam", "_KEXPFAM_COMPLETE").source())
