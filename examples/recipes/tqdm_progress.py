"""The progress of a call as a bar of tqdm.

Needs: tqdm

    python examples/recipes/tqdm_progress.py
"""

from tqdm import tqdm

from mcp_ref import Client, Context, Server, text_of

server = Server("copying")


@server.tool()
def copy(files: int, ctx: Context) -> str:
    """Copy some files."""
    for done in range(files):
        ctx.progress(done + 1, files, f"file {done + 1}")
    return f"{files} files copied"


if __name__ == "__main__":
    with Client(server) as client, tqdm(unit="file") as bar:

        def show(progress: float, total: float | None, message: str | None) -> None:
            bar.total = total
            bar.set_description(message, refresh=False)
            bar.update(progress - bar.n)

        result = client.call_tool("copy", {"files": 5}, on_progress=show)
    print(text_of(result), f"({bar.n:g} of {bar.total:g})")

# Output: 5 files copied (5 of 5)
