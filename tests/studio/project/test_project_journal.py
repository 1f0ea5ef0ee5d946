"""The journal: a cut at any byte, a damage at any byte, a full disk, a killed writer."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys

import msgspec
import pytest

from marey.base import FormatError, WriteError
from marey.samples import walk
from marey.studio.commands import COMMANDS
from marey.studio.project import JOURNAL, SNAPSHOT, Journal, Project
from marey.studio.protocol import make_header

RenameProject = COMMANDS["rename_project"]


def abandon(project: Project) -> None:
    """Leave a project as kill -9 leaves it."""
    project._journal.close()
    project._lock.release()


@pytest.fixture
def written(tmp_path):
    """A folder with ten changes in its journal, the bytes of it, and where its lines end."""
    project = Project(tmp_path / "project")
    for number in range(8):
        project.run(RenameProject(f"name {number} é\n"))
    project.undo()
    project.redo()
    abandon(project)
    data = (tmp_path / "project" / JOURNAL).read_bytes()
    ends = [place + 1 for place, byte in enumerate(data) if byte == 10]
    return tmp_path / "project", data, ends


def test_a_journal_cut_at_any_byte_is_read_to_its_last_whole_line(written, monkeypatch) -> None:
    folder, data, ends = written
    monkeypatch.setattr("os.fsync", lambda _: None)
    for cut in range(len(data) + 1):
        (folder / JOURNAL).write_bytes(data[:cut])
        journal = Journal(folder)
        _, records = journal.read()
        journal.close()
        whole = sum(end <= cut for end in ends)
        assert [record.seq for record in records] == list(range(1, whole + 1))
        assert (folder / JOURNAL).stat().st_size == (ends[whole - 1] if whole else 0)


def test_a_project_goes_on_after_every_cut_line(written) -> None:
    folder, data, ends = written
    for number, end in enumerate(ends):
        shutil.rmtree(folder.with_name("copy"), ignore_errors=True)
        shutil.copytree(folder, folder.with_name("copy"))
        (folder.with_name("copy") / JOURNAL).write_bytes(data[: end - 1])
        project = Project(folder.with_name("copy"))
        assert project.seq == number
        # The ninth is a step back, the tenth one forth
        names = [folder.name, *(f"name {n} é\n" for n in range(8)), "name 6 é\n"]
        assert project.tree["name"] == names[number]
        project.run(RenameProject("after"))
        abandon(project)
        again = Project(folder.with_name("copy"))
        assert (again.seq, again.tree["name"]) == (number + 1, "after")
        abandon(again)


def test_a_damaged_byte_ends_the_journal_there_and_is_kept_aside(written, monkeypatch) -> None:
    folder, data, ends = written
    monkeypatch.setattr("os.fsync", lambda _: None)
    rng = random.Random(0)
    for place in rng.sample(range(len(data)), 150):
        (folder / JOURNAL).write_bytes(data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :])
        (folder / "journal.damaged").unlink(missing_ok=True)
        journal = Journal(folder)
        _, records = journal.read()
        journal.close()
        line = sum(end <= place for end in ends)
        assert len(records) == line
        # One damaged line at the end looks like one that was being written
        assert (folder / "journal.damaged").exists() == (line < len(ends) - 1) or place in [end - 1 for end in ends]


def test_a_crash_between_snapshot_and_journal_counts_nothing_twice(written) -> None:
    folder, data, _ = written
    project = Project(folder)  # writes the snapshot and empties the journal
    tree, seq = project.tree, project.seq
    abandon(project)
    (folder / JOURNAL).write_bytes(data)
    again = Project(folder)
    assert (again.tree, again.seq, again.undo_label) == (tree, seq, "Rename project")
    again.close()


def test_a_full_disk_refuses_the_command_and_keeps_the_project(tmp_path, monkeypatch) -> None:
    project = Project(tmp_path)
    project.run(RenameProject("one"))

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("marey.studio.project.os.fsync", full)
        with pytest.raises((WriteError, OSError), match="No space left"):
            project.run(RenameProject("two"))
    assert project.tree["name"] == "one"
    project.run(RenameProject("three"))
    abandon(project)
    again = Project(tmp_path)
    assert again.tree["name"] == "three"
    again.close()


def test_a_folder_that_cannot_be_written_is_said(tmp_path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WriteError, match="cannot write"):
        Project(tmp_path / "file" / "project")


def test_a_snapshot_that_fails_does_not_refuse_the_command(tmp_path, monkeypatch) -> None:
    project = Project(tmp_path)

    def full(*_) -> None:
        raise WriteError("project.json", "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("marey.studio.project.COMPACT_BYTES", 0)
        patched.setattr("marey.studio.project.write_atomically", full)
        project.run(RenameProject("kept"))
    abandon(project)
    again = Project(tmp_path)
    assert again.tree["name"] == "kept"
    again.close()


def test_a_damaged_snapshot_is_said_with_its_file(tmp_path) -> None:
    Project(tmp_path).close()
    (tmp_path / SNAPSHOT).write_bytes(b'{"seq": 1')
    with pytest.raises(FormatError, match=r"project\.json.*cannot be read"):
        Project(tmp_path)


def test_a_writer_that_is_killed_loses_nothing_that_it_told(tmp_path) -> None:
    program = (
        "import sys\n"
        "from marey.studio.project import Project\n"
        "from marey.studio.commands import read_command\n"
        "project = Project(sys.argv[1])\n"
        "for number in range(10**9):\n"
        "    print(project.run(read_command('rename_project', {'name': f'n{number}'})).seq, flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, tmp_path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = [int(process.stdout.readline()) for _ in range(random.Random(3).randrange(50, 200))]
        process.kill()
        told += [int(line) for line in process.stdout.read().split("\n")[:-1]]
    project = Project(tmp_path)
    assert told[-1] <= project.seq <= told[-1] + 1
    assert project.tree["name"] == f"n{project.seq - 1}"
    project.close()


def test_motions_are_kept_by_content_and_swept_when_nobody_names_them(tmp_path) -> None:
    project = Project(tmp_path)
    motion = walk()
    key = project.store.put(motion)
    assert project.store.put(motion) == key
    assert (project.store.get(key).rotations.wxyz == motion.rotations.wxyz).all()
    header = make_header(project.store, key)
    assert make_header(project.store, key) == header  # from the disk
    project.run(RenameProject(f"about {key}"))
    project.close()
    kept = Project(tmp_path)
    assert len(list((tmp_path / "motions").rglob("*.safetensors"))) == 1
    kept.undo()
    kept.forget_history()
    kept.close()
    Project(tmp_path).close()
    assert not any(path.is_file() for path in (tmp_path / "motions").rglob("*"))
    assert msgspec.json.decode((tmp_path / SNAPSHOT).read_bytes())["undo"] == []
