"""Files that are attached: what is read of them, and why some are declined."""

import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import docx
import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

from engine.helper_process import HelperClosed
from tests.support.outside.documents import archive, pdf, with_password, word
from ui.records.attachments import PageRange
from ui.records.document_process import MAX_XML_BYTES
from ui.records.documents import MAX_TEXT_BYTES, FileReader, shown_name
from ui.words import FileRefused


def refusal(path: Path) -> str:
    with pytest.raises(FileRefused) as refused:
        FileReader(path).read()
    return str(refused.value)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("Grüße\r\n".encode("utf-8-sig"), "Grüße\n"),
        ("Grüße".encode("utf-16"), "Grüße"),
        ("Viele Grüße aus Köln".encode("cp1252"), "Viele Grüße aus Köln"),
        (b"\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
    ],
)
def test_text_is_read_in_the_encoding_that_it_has(tmp_path: Path, data: bytes, text: str) -> None:
    path = tmp_path / "n.txt"
    path.write_bytes(data)
    assert FileReader(path).read().text == text


def test_a_guessed_encoding_is_named(tmp_path: Path) -> None:
    path = tmp_path / "n.txt"
    path.write_bytes("Viele Grüße aus Köln".encode("cp1252"))
    assert "read as Windows-1252" in FileReader(path).read().remark


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("p.png", b"\x89PNG\r\n\x1a\n\0\0", "“p.png” is an image. Attach text"),
        ("p.jpg", b"\xff\xd8\xff\xe0", "“p.jpg” is an image"),
        ("a.mp3", b"ID3\x04", "“a.mp3” is a sound recording"),
        ("z.txt", b"a\0b", "“z.txt” can’t be attached"),
        ("j.txt", "日本語のテキスト".encode("shift_jis"), "only text in a known encoding"),
        ("old.doc", b"\xd0\xcf\x11\xe0", "Save a copy without a password as .docx"),
        ("e.txt", b" \n", "“e.txt” is empty"),
        ("big.txt", b"x" * (MAX_TEXT_BYTES + 1), "up to 4 MB"),
        ("bad.pdf", b"%PDF-1.7\nnothing", "“bad.pdf” is damaged"),
        ("torn.pdf", b"\0\x91" * 99, "“torn.pdf” is damaged"),
        ("bad.docx", b"PK\x03\x04nothing", "“bad.docx” is damaged"),
    ],
)
def test_a_file_that_cannot_be_attached_is_declined_with_a_reason(
    tmp_path: Path, name: str, data: bytes, said: str
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    assert said in refusal(path)


def test_a_folder_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    assert "is a folder. Attach the files in it." in refusal(tmp_path)
    assert "is not a readable file" in refusal(tmp_path / "gone.txt")


def test_a_pdf_file_is_read_page_by_page(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    path = pdf(tmp_path / "r.pdf", ["one", "", "three"])
    file = FileReader(path, lambda *pages: told.append(pages)).read()
    assert (file.pages, file.all_pages) == (PageRange(1, 3, 3), ("one", "", "three"))
    assert file.remark == "1 page has no text: it may be a picture."
    assert told[-1] == (3, 3)
    chosen = file.with_pages(3, 3)
    assert (chosen.title, chosen.text) == ("r.pdf (page 3 of 3)", "[Page 3]\nthree")


def test_a_word_document_gives_its_paragraphs_and_tables(tmp_path: Path) -> None:
    file = FileReader(word(tmp_path / "plan.docx")).read()
    assert (file.text, file.pages) == ("# Plan\n\nCount the stops.\n\n| a | b |", None)


def test_words_in_nested_tables_forms_links_and_tracked_changes_are_read(tmp_path: Path) -> None:
    document = docx.Document()
    cell = document.add_table(1, 2).cell(0, 1)
    cell.text = "outer"
    cell.add_table(1, 1).cell(0, 0).text = "nested"
    run = '<w:r><w:t xml:space="preserve">{}</w:t></w:r>'
    deleted = "<w:r><w:delText>deleted </w:delText></w:r>"
    said = (
        run.format("It was "),
        f"<w:ins>{run.format('inserted')}</w:ins><w:del>{deleted}</w:del>",
        f"<w:hyperlink>{run.format(' and linked')}</w:hyperlink>",
        f"<w:sdt><w:sdtContent>{run.format(', filled in')}</w:sdtContent></w:sdt>",
        '<w:r><w:br w:type="page"/><w:tab/><w:t>on</w:t><w:noBreakHyphen/><w:t>line</w:t></w:r>',
    )
    form = f"<w:sdt {nsdecls('w')}><w:sdtContent><w:p>{''.join(said)}</w:p></w:sdtContent></w:sdt>"
    document.element.body.insert(0, parse_xml(form))
    path = tmp_path / "form.docx"
    document.save(str(path))
    assert FileReader(path).read().text == (
        "It was inserted and linked, filled in\ton-line\n\n|  | outer nested |"
    )


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda path: pdf(path, ["", ""]), "has no text: its pages are pictures"),
        (lambda path: with_password(pdf(path, ["x"]), "secret"), "has a password"),
        (lambda path: archive(path, "xl/workbook.xml"), "is a spreadsheet"),
        (lambda path: archive(path, "a.txt"), "is an archive"),
    ],
)
def test_documents_without_readable_text_are_declined_with_a_reason(
    tmp_path: Path, made: Callable[[Path], Path], said: str
) -> None:
    assert said in refusal(made(tmp_path / "f.bin"))


def test_a_document_that_unpacks_to_far_more_is_too_large_and_not_damaged(tmp_path: Path) -> None:
    space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    head, end = f"<w:document {space}><w:body>", "</w:body></w:document>"

    def document(name: str, body: str) -> Path:
        path = tmp_path / name
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
            made.writestr("word/document.xml", f"{head}{body}{end}")
        return path

    wide = document("wide.docx", " " * (MAX_XML_BYTES + 1))
    assert "is too large when unpacked. Attach the part that matters" in refusal(wide)
    deep = document("deep.docx", "<w:p>" * 2_000 + "</w:p>" * 2_000)
    assert "is too large when unpacked" in refusal(deep)
    many = document("many.docx", "<w:p/>" * 2_000_000)
    if sys.platform == "linux":  # macOS has no limit of address space
        assert "takes too much memory to read" in refusal(many)
    # 210,000 elements are no more than a long book.
    long = document("long.docx", "<w:p><w:r><w:t>x</w:t></w:r></w:p>" * 70_000)
    assert FileReader(long).read().text.count("x") == 70_000


def test_a_file_that_only_forbids_changes_is_read(tmp_path: Path) -> None:
    path = with_password(pdf(tmp_path / "r.pdf", ["open"]), "")
    assert FileReader(path).read().all_pages == ("open",)


def hostile(path: Path, stream: bytes) -> Path:
    """Write a PDF file whose second page has a compressed stream of drawing."""
    whole = pdf(path, ["first", "second"]).read_bytes()
    start = whole.index(b"<< /Length", whole.index(b"(first)"))
    end = whole.index(b"endstream", start) + len(b"endstream")
    packed = zlib.compress(stream)
    head = b"<< /Length %d /Filter /FlateDecode >>\nstream\n" % len(packed)
    path.write_bytes(whole[:start] + head + packed + b"\nendstream" + whole[end:])
    return path


def test_a_page_that_computes_without_end_leaves_the_pages_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ui.records.documents.MAX_CPU_S", 1.0)
    path = hostile(tmp_path / "slow.pdf", b"BT /F1 9 Tf (x) Tj ET " * 500_000)
    file = FileReader(path).read()
    assert file.all_pages == ("first",)
    assert "Only the first of its 2 pages was read" in file.remark


def test_a_page_that_unpacks_without_end_does_no_harm(tmp_path: Path) -> None:
    path = hostile(tmp_path / "bomb.pdf", bytes(120_000_000))
    file = FileReader(path).read()
    assert file.all_pages == ("first",)
    assert "Only the first of its 2 pages was read: the next one takes too much" in file.remark


def test_a_file_of_too_many_pages_or_characters_is_cut_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = pdf(tmp_path / "long.pdf", ["page one", "page two", "page three"])
    monkeypatch.setattr("ui.records.documents.MAX_PAGES", 2)
    file = FileReader(path).read()
    assert file.pages == PageRange(1, 2, 3)
    assert "Only the first 2 of its 3 pages were read" in file.remark
    monkeypatch.setattr("ui.records.documents.MAX_CHARS", 10)
    file = FileReader(path).read()
    assert file.all_pages == ("page one",)
    assert "a file may have 10 characters" in file.remark


def test_a_reader_that_is_closed_reads_no_document(tmp_path: Path) -> None:
    reader = FileReader(pdf(tmp_path / "r.pdf", ["one"]))
    reader.close()
    with pytest.raises(HelperClosed):
        reader.read()


def test_names_are_one_line_of_text() -> None:
    assert shown_name(Path("/a/b\n c\udcff.txt")) == "b c\ufffd.txt"
