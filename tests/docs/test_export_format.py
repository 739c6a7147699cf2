"""The file that docs/export-format.md shows is one, and can be imported."""

import io
import re
from collections.abc import Callable
from pathlib import Path

import statekeep
from server_process import ServerProcess
from statekeep._export_file import read
from statekeep.v1 import admin_pb2

PAGE = (Path(__file__).parents[2] / "docs" / "export-format.md").read_text()
SHOWN = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)[0].encode()


def test_the_file_shown_can_be_imported_and_is_what_its_export_would_be(
    start_server: Callable[..., ServerProcess],
) -> None:
    with statekeep.Client(start_server().address) as client:
        imported = client.admin.import_(io.BytesIO(SHOWN))
        assert (imported.restored, imported.records) == (2, 4)
        file = io.BytesIO()
        client.admin.export(file, thread="chat-1")
    assert file.getvalue().splitlines()[1:3] == SHOWN.splitlines()[7:9]


def test_every_kind_of_line_that_is_shown_or_named_is_one_of_the_contract() -> None:
    named = set(re.findall(r"`([a-z]+)`", "\n".join(re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE))))
    parts = set(admin_pb2.ExportedPart.DESCRIPTOR.fields_by_name)
    assert named == parts | {"format", "complete"}
    assert {line.part.WhichOneof("part") for line in read(io.BytesIO(SHOWN))} <= parts
