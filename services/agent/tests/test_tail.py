from pathlib import Path

from muster_agent.runtimes.tail import LINE_MAX_BYTES, READ_MAX_BYTES, Tail, last_lines


def test_lines_are_passed_on_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tail = Tail(path)
    assert tail.read() == ""
    with path.open("a") as log:
        log.write("one\ntw")
        log.flush()
        assert tail.read() == "one\n"
        log.write("o\nthree")
        log.flush()
        assert tail.read() == "two\n"
        assert tail.read() == ""
        assert tail.read(last=True) == "three"


def test_what_was_there_before_is_not_passed_on(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("old\n")
    tail = Tail(path)
    with path.open("a") as log:
        log.write("new\n")
    assert tail.read() == "new\n"


def test_a_flood_is_cut_and_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tail = Tail(path)
    flood = ("y" * 99 + "\n") * 1000
    path.write_text(flood)
    text = tail.read()
    assert len(text) < READ_MAX_BYTES + 200
    assert f"[{len(flood) - READ_MAX_BYTES} bytes were not passed on" in text
    assert text.endswith("y" * 99 + "\n")


def test_an_endless_line_is_passed_on_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tail = Tail(path)
    path.write_text("z" * (LINE_MAX_BYTES + 1))
    assert tail.read() == "z" * (LINE_MAX_BYTES + 1)


def test_the_last_lines_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert last_lines(path, 3) == ""
    path.write_text("".join(f"{number}\n" for number in range(10)))
    assert last_lines(path, 3) == "7\n8\n9\n"
