#!/usr/bin/env python3
"""Packs a folder as an archive: `pack.py FOLDER ARCHIVE`, with a name that ends with `.tar.gz` or `.zip`.

Archives of equal contents have equal bytes: files are sorted, belong to root, and have the time of `SOURCE_DATE_EPOCH`.
"""

import gzip
import os
import pathlib
import sys
import tarfile
import time
import zipfile


def tar(folder, files, archive, seconds):
    """Writes a compressed tar file."""
    with open(archive, "wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=seconds) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as written:
        for path in files:
            entry = tarfile.TarInfo(path.relative_to(folder.parent).as_posix())
            entry.size, entry.mtime, entry.mode = path.stat().st_size, seconds, mode(path)
            entry.uname = entry.gname = "root"
            with open(path, "rb") as content:
                written.addfile(entry, content)


def zipped(folder, files, archive, seconds):
    """Writes a zip file."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as written:
        for path in files:
            entry = zipfile.ZipInfo(path.relative_to(folder.parent).as_posix(), time.gmtime(seconds)[:6])
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, (0o100000 | mode(path)) << 16
            written.writestr(entry, path.read_bytes())


def mode(path):
    """Returns the permissions of a file: those of a program or of a text."""
    return 0o755 if path.stat().st_mode & 0o100 else 0o644


def main():
    """Reads the arguments and writes the archive."""
    if len(sys.argv) != 3 or not sys.argv[2].endswith((".tar.gz", ".zip")):
        sys.exit("usage: pack.py FOLDER ARCHIVE, with a name that ends with .tar.gz or .zip")
    folder, archive = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    if not folder.is_dir():
        sys.exit(f"pack.py: {folder}: no such folder")
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    write = zipped if archive.endswith(".zip") else tar
    # An interrupted call leaves no half archive.
    write(folder, files, archive + ".part", int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))
    os.replace(archive + ".part", archive)


if __name__ == "__main__":
    main()
