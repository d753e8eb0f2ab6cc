"""The command `learn`: programs with one fault each, to be mended by the reader and marked here.

Not here:  who speaks with the program (lab/testing/scripted_peer, lab/testing/scripted_http); the exercises
           (examples/exercises)

An exercise is a program, NN_NAME.py, whose docstring has its task and its page; our solution, in `solutions`; and a
text, NN_NAME.txt: lines `title:` and `task:` in Chinese, two `hint:` (English | Chinese), `seen:`, and after an empty
line the script of the partner. The progress is one JSON file in the folder of the learner.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Final

from mcp_ref.facts import open_plain, read_private, replace
from mcp_ref.lab.cli import render
from mcp_ref.lab.cli.commands import Exit, UsageError
from mcp_ref.lab.judge.draw import steps
from mcp_ref.recording.record import as_text

EXERCISES: Final = Path(__file__).parent.parent / "exercises"
PROGRESS: Final = "mcp-ref-learn.json"

_SITE: Final = "https://modelcontextprotocol.io/specification"
_LOOK_INTERVAL: Final = 0.2
_WIDTH: Final = 66
_MAX_ARROWS: Final = 8
_MAX_PROGRESS: Final = 1 << 20  # bytes


def say(english: str, chinese: str) -> str:
    """Return words in the language of the reader: that of `MCP_REF_LANG`, or of the locale."""
    names = ("MCP_REF_LANG", "LC_ALL", "LC_MESSAGES", "LANG")
    return chinese if next(filter(None, map(os.environ.get, names)), "").startswith("zh") else english


class Exercise:
    """One exercise, as it was packed.

    Attributes:
        name: of the file, which a learner gets under the same name.
        source: the program, with the task in the language of the reader.
        hints: two, in that language.
        script: what the partner does. hand: a message to try a server with.
    """

    def __init__(self, number: int) -> None:
        self.number, self.program = number, next(EXERCISES.glob(f"{number:02}_*.py"))
        self.name, source = self.program.name, self.program.read_text("utf-8")
        head, _, self.script = self.program.with_suffix(".txt").read_text("utf-8").partition("\n\n")
        facts = [line.split(": ", 1) for line in head.splitlines()]
        self.hints = [say(*value.split(" | ")) for key, value in facts if key == "hint"]
        about, docstring = dict(facts), ast.get_docstring(ast.parse(source)) or ""
        title, task, page = docstring.split("\n\n")
        self.title, self.task = (
            say(title.split(". ", 1)[1].rpartition(" (")[0], about["title"]),
            say(task, about["task"]),
        )
        self.source, self.seen = source.replace(task, self.task), about["seen"]
        self.hand = about.get("hand", '{"jsonrpc":"2.0","id":1,"method":"ping"}')
        self.page = f"{_SITE}/{self.script.split(maxsplit=3)[2]}/{page.split()[1].rstrip(',')}"


def run(args: argparse.Namespace) -> Exit:
    """List the exercises, or do what is asked with one."""
    numbers = sorted(int(path.name[:2]) for path in EXERCISES.glob("[0-9][0-9]_*.py"))
    if args.number is None and (args.check or args.hint or args.solution or args.again):
        raise UsageError("which exercise? As in: mcp-ref learn 1 --check")
    if args.number is not None and args.number not in numbers:
        raise UsageError(f"no exercise has the number {args.number}; there are {numbers[0]} to {numbers[-1]}")
    progress = _progress()
    left = [each for each in numbers if "solved" not in progress.get(str(each), {})]
    if args.number is None and args.watch:
        return _one_after_the_other(left, progress)
    if args.number is None:
        for number in numbers:
            done = progress.get(str(number), {})
            hints = say("hints: ", "提示：") + str(done["hints"]) if "hints" in done else ""
            state = say("solved", "已完成") if "solved" in done else hints
            render.put([f"{number:3}  {state:<8}  {Exercise(number).title}"])
        render.put(say("next: ", "下一步：") + f"mcp-ref learn {each}" for each in left[:1])
        return Exit.OK
    exercise, done = Exercise(args.number), progress.setdefault(str(args.number), {})
    if args.watch or args.check:
        return (_watch if args.watch else _check)(exercise, done, progress)
    if args.again:
        render.put(_begun_again(exercise, progress))
        return Exit.OK
    if args.hint:
        done["hints"] = min(done.get("hints", 0) + 1, len(exercise.hints))
        _keep(progress)
        render.put([exercise.hints[done["hints"] - 1]])
    elif not args.solution:
        render.put(_handed_out(exercise))
    elif done.get("solved") or args.give_up:
        render.put([(EXERCISES / "solutions" / exercise.name).read_text("utf-8").rstrip("\n")])
    else:
        raise UsageError(
            f"exercise {args.number} is not solved yet: --hint helps, --give-up shows the solution as well"
        )
    return Exit.OK


# -- the folder of the learner


def _progress() -> dict[str, Any]:
    """Return the progress in this folder: for each number whether it is `solved`, and how many `hints` were given."""
    try:
        found = read_private(Path(PROGRESS), _MAX_PROGRESS, open_plain)
    except (OSError, ValueError) as problem:
        raise UsageError(f"{PROGRESS}, which has the progress, cannot be read: {problem}; move it away") from None
    found = {} if found is None else found
    rows = found.values() if isinstance(found, dict) else [None]
    hints = (row.get("hints", 0) if isinstance(row, dict) else None for row in rows)
    if not all(type(each) is int and each >= 0 for each in hints):
        raise UsageError(f"{PROGRESS} does not hold the progress of exercises: move it away")
    return found


def _keep(progress: dict[str, Any]) -> None:
    try:
        replace(Path(PROGRESS).absolute(), [json.dumps({number: done for number, done in progress.items() if done})])
    except OSError as problem:
        raise UsageError(f"{PROGRESS} cannot be written: {problem}") from None


def _handed_out(exercise: Exercise) -> Iterator[str]:
    """Copy the program into this folder; what is there stays."""
    check = f"mcp-ref learn {exercise.number} --check"
    try:
        with open(exercise.name, "x", encoding="utf-8") as file:
            file.write(exercise.source)
    except FileExistsError:
        raise UsageError(f"{exercise.name} is here already, and stays as it is; {check} marks it") from None
    except OSError as problem:
        raise UsageError(f"{exercise.name} cannot be written: {problem}") from None
    yield f"{exercise.number}. {exercise.title}\n\n{exercise.task}\n"
    yield say("page:     ", "规范：") + exercise.page
    yield say(f"program:  {exercise.name}, in this folder", f"程序：{exercise.name}（在当前文件夹里）")
    if exercise.script.startswith("partner client"):
        yield say("by hand:  ", "动手试：") + f"echo '{exercise.hand}' | python {exercise.name}"
    yield say(f"mark it:  {check}, or --watch: at each save", f"检查：{check}，或 --watch：每次保存时检查")


def _begun_again(exercise: Exercise, progress: dict[str, Any]) -> Iterator[str]:
    """Hand the program out as it was; the learner's own stays beside it."""
    program = Path(exercise.name)
    if program.exists():
        kept = next(each for number in count(1) if not (each := Path(f"{exercise.name}.{number}")).exists())
        try:
            program.rename(kept)
        except OSError as problem:
            raise UsageError(f"{exercise.name} cannot be moved: {problem}") from None
        yield say(f"yours is {kept} now", f"你的程序现在叫 {kept}")
    if progress.pop(str(exercise.number), None):
        _keep(progress)
    yield from _handed_out(exercise)


# -- marking


def _one_after_the_other(left: list[int], progress: dict[str, Any]) -> Exit:
    """Hand out each exercise that is left, and mark it at each save until it is solved."""
    for number in left:
        exercise, done = Exercise(number), progress.setdefault(str(number), {})
        if not Path(exercise.name).exists():
            render.put(_handed_out(exercise))
        _watch(exercise, done, progress, goes_on=True)
    render.put([say("all are solved", "全部完成")])
    return Exit.OK


def _watch(exercise: Exercise, done: dict[str, Any], progress: dict[str, Any], *, goes_on: bool = False) -> Exit:
    """Mark the program at each save, until Ctrl-C; with `goes_on` until it is solved."""
    before = None
    while True:
        stamp = None
        # An editor may be replacing the file.
        with suppress(FileNotFoundError):
            about = os.stat(exercise.name)
            stamp = about.st_mtime_ns, about.st_size, about.st_ino
        if before is None or stamp not in (None, before):
            before = stamp
            if _check(exercise, done, progress) is Exit.OK and goes_on:
                return Exit.OK
            render.note(say("waiting for the next save; Ctrl-C ends it", "等待下一次保存；按 Ctrl-C 结束"))
        time.sleep(_LOOK_INTERVAL)


def _check(exercise: Exercise, done: dict[str, Any], progress: dict[str, Any]) -> Exit:
    from mcp_ref.lab.testing.scripted_http import partner_for

    learn, program, began = f"mcp-ref learn {exercise.number}", Path(exercise.name), time.monotonic()
    if not program.is_file():
        raise UsageError(f"{exercise.name} is not in this folder: {learn} puts it here")
    verdict = partner_for(exercise.script, program).play()
    passed = verdict.missed is None and not verdict.findings
    render.put([f"{exercise.name}: {say('solved', '通过') if passed else say('not yet', '还没有通过')}"
               f" ({time.monotonic() - began:.1f} s)"])  # fmt: skip
    if not passed:
        render.put([*_told(verdict), *_drawn(verdict), say("a hint: ", "提示：") + f"{learn} --hint"])
        return Exit.PROTOCOL
    done["solved"] = True
    _keep(progress)
    render.put([say("this fault was met in: ", "见过这个错误的项目：") + exercise.seen])
    render.put([say("our solution: ", "我们的解法：") + f"{learn} --solution"])
    return Exit.OK


def _told(verdict: Any) -> Iterator[str]:
    """Yield the first sentence that was broken, and the first goal that was not reached."""
    said, missed = say("it said:  ", "它说的："), verdict.missed
    for finding in verdict.findings[:1]:
        yield f"{finding.says if ' NOT ' in finding.says else f'{finding.level}: {finding.says}'}\n    {finding.ids[0]}"
        yield f"    {said}{as_text(finding.message)[:200]}"
        yield f"    {say('expected: ', '应为：')}{finding.expected}"
    if missed is not None:
        yield say("goal: ", "目标：") + say(*(missed.split(" · ") * 2)[:2])
        if verdict.broke is not None and not (verdict.findings and verdict.broke[0] in verdict.findings[0].ids):
            yield f"    {verdict.broke[1]}\n    {verdict.broke[0]}"
        for heard in [each for each in verdict.heard if each is not None][-3:]:
            yield f"    {say('it heard: ', '它收到：')}{as_text(heard)[:200]}"
        if verdict.at and not verdict.findings:
            yield f"    {said}{as_text(verdict.events[verdict.at - 1].message)[:200]}"
        yield f"    {verdict.why}"


def _drawn(verdict: Any) -> Iterator[str]:
    """Yield the end of the conversation as a sequence diagram."""
    # As one connection: how often the program was started is not what matters here.
    events = [event._replace(conn=1) for event in verdict.events]
    arrows = steps(events, wrong={verdict.at, *(finding.seq for finding in verdict.findings)})
    if arrows:
        yield f"  {say('client', '客户端')}{'':{_WIDTH - 4}}{say('server', '服务器')}"
    for arrow in arrows[-_MAX_ARROWS:]:
        line = f" {arrow.text} ".center(_WIDTH - 1, "-" if arrow.kind != "response" else ".")
        drawn = f"{line}>" if arrow.sender == "client" else f"<{line}"
        yield f"    |{drawn}|{say('  wrong', '  不对') if arrow.wrong else ''}"
