"""Skills with those who have them: the SDK for TypeScript, fastmcp, the Inspector; and the check of the format."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_ref import SKILLS, Client, LocalProtocolError
from tests.interop import programs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

HERE = Path(__file__).parent
PYTHON = HERE.parents[1] / ".ci" / "skills-peers" / "bin" / "python"
FILES = {
    "git-workflow/SKILL.md": "---\nname: git-workflow\ndescription: How we branch.\nlicense: MIT\n---\n# Branch\n",
    "git-workflow/references/a guide.md": "guide\n",
    "git-workflow/logo.bin": b"\xff\x00",
    "refunds/SKILL.md": "---\nname: refunds\ndescription: 'Refund: as the company does'\n---\nRefund.\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        path = tmp_path / "skills" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return tmp_path / "skills"


def fastmcp(*arguments: str) -> list[str]:
    if not PYTHON.exists():
        pytest.skip("no fastmcp with skills: run .ci/peers")
    return [str(PYTHON), str(HERE / "peers" / "fastmcp_skills.py"), *arguments]


def ours(folder: Path) -> list[str]:
    return [sys.executable, "-W", "ignore", str(HERE / "peers" / "our_skills.py"), str(folder)]


def printed(command: list[str]) -> Any:
    """Return what a client prints when it has read everything."""
    environment = {**os.environ, **programs.OUR_PATH}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("peer", ["typescript", "fastmcp"])
def test_our_client_reads_their_skills_and_verifies_them(folder: Path, peer: str) -> None:
    if peer == "typescript":
        command = programs.typescript("ts_skills.mjs", "server", str(folder), package="server")
    else:
        command = fastmcp("server", str(folder))
    with Client(command, extensions=[SKILLS], timeout=30, connect_timeout=30) as client:
        skills = {skill["frontmatter"]["name"]: skill for skill in client.list_skills()}
        assert sorted(skills) == ["git-workflow", "refunds"]
        for name, content in FILES.items():
            root, _, path = name.partition("/")
            data = content.encode() if isinstance(content, str) else content
            assert client.read_skill(skills[root], path) == data
        assert client.get_skill(skills["refunds"]["uri"]) == skills["refunds"]
        folder_uri = skills["git-workflow"]["uri"].removesuffix("/SKILL.md")
        if peer == "typescript":
            assert {each["name"] for each in client.read_directory(folder_uri)} == {
                "SKILL.md",
                "references",
                "logo.bin",
            }
        else:
            with pytest.raises(LocalProtocolError):
                client.read_directory(folder_uri)


def test_the_client_of_typescript_reads_and_verifies_ours(folder: Path) -> None:
    found = printed(programs.typescript("ts_skills.mjs", "client", *ours(folder), package="client"))
    assert found["supported"] and found["directories"]
    assert len(found["read"]) == len(FILES) and all(found["read"].values())
    assert sorted(found["children"]) == ["SKILL.md", "logo.bin", "references"]


def test_the_client_of_fastmcp_reads_and_verifies_ours(folder: Path) -> None:
    found = printed(fastmcp("client", *ours(folder)))
    assert sum(map(len, found.values())) == len(FILES)


def test_the_inspector_finds_nothing_wrong_with_ours(folder: Path, tmp_path: Path) -> None:
    inspector = programs.node("@modelcontextprotocol/inspector", "mcp-inspector")
    command = ours(folder)
    config = tmp_path / "config.json"
    entry = {"command": command[0], "args": command[1:], "env": programs.OUR_PATH}
    config.write_text(json.dumps({"mcpServers": {"ours": entry}}))
    done = subprocess.run(
        [*inspector, "--cli", "--config", str(config), "--server", "ours", "--format", "json", "--quiet",
         "--protocol-era", "modern", "--method", "skills/list", "--verify"],
        capture_output=True, text=True, timeout=60, env={**os.environ, "HOME": str(tmp_path)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_formats_own_check_accepts_the_folders_of_the_examples(folder: Path) -> None:
    if not PYTHON.exists():
        pytest.skip("no skills-ref: run .ci/peers")
    examples = HERE.parents[1] / "examples"
    folders = [each.parent for each in [*folder.rglob("SKILL.md"), *examples.rglob("SKILL.md")]]
    code = "import sys, pathlib, skills_ref\nprint([skills_ref.validate(pathlib.Path(each)) for each in sys.argv[1:]])"
    done = subprocess.run([str(PYTHON), "-c", code, *map(str, folders)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str([[] for _ in folders])
