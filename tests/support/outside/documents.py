"""Small PDF and Word files for tests, made on the spot."""

import zipfile
from collections.abc import Sequence
from pathlib import Path

import docx
from pypdf import PdfReader, PdfWriter


def pdf(path: Path, pages: Sequence[str]) -> Path:
    """Write a PDF file whose pages have a line of text each; an empty one has none."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {len(pages)} /Kids [{kids}] >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        drawn = f"BT /F1 12 Tf 40 200 Td ({text}) Tj ET".encode() if text else b""
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 400 300] /Resources << /Font << /F1 3 0 "
            b"R >> >> /Contents %d 0 R >>" % (5 + 2 * number)
        )
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawn), drawn))
    whole, places = b"%PDF-1.4\n", []
    for number, one in enumerate(objects, 1):
        places.append(len(whole))
        whole += b"%d 0 obj\n%s\nendobj\n" % (number, one)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    path.write_bytes(
        whole
        + b"xref\n0 %d\n0000000000 65535 f \n%s" % (size, table)
        + b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, len(whole))
    )
    return path


def with_password(path: Path, password: str) -> Path:
    """Encrypt a PDF file; an empty password lets everybody read it."""
    writer = PdfWriter(clone_from=PdfReader(path))
    writer.encrypt(password, owner_password="owner", algorithm="RC4-128")
    writer.write(path)
    return path


def word(path: Path) -> Path:
    """Write a Word document with a heading, a paragraph and a table."""
    document = docx.Document()
    document.add_heading("Plan", 1)
    document.add_paragraph("Count the stops.")
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "a", "b"
    document.save(str(path))
    return path


def archive(path: Path, *names: str) -> Path:
    """Write a ZIP file with files of these names."""
    with zipfile.ZipFile(path, "w") as made:
        for name in names:
            made.writestr(name, "x")
    return path
