#!/usr/bin/env python3
"""Writes the licences and the bill of materials of the program.

    notices.py --target TARGET[=FEATURES] … [--notices THIRD-PARTY.txt] [--bom BOM.cdx.json] [--zig FOLDER]

`cargo tree` names the packages in the program for each target, with the features of the build and without tests.
`cargo metadata` names their licences and folders, and `Cargo.lock` their SHA-256. The notices list every package with its
licence and all texts of licences in its folder, equal texts once. The bill of materials is CycloneDX 1.6.

A package without a text gets the standard text of MIT, Apache-2.0 or BSL-1.0, with its authors where the text names them. If
none of these licences fits, or if `deny.toml` does not allow the licence, the script names the package and fails.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib
import uuid
from html.parser import HTMLParser

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT_NAME = re.compile(r"(licen[cs]e|copying|copyright|notice|unlicense)([-_.].*)?$", re.IGNORECASE)
OTHER_ENDINGS = {".c", ".h", ".html", ".js", ".json", ".py", ".rs", ".sh", ".toml", ".yaml", ".yml"}
OTHER_FOLDERS = {"benches", "examples", "target", "test", "tests"}
# In the order of preference for packages without a text.
STANDARD_TEXTS = {"MIT": "LICENSE-MIT", "Apache-2.0": "LICENSE-APACHE", "BSL-1.0": "release/licences/BSL-1.0.txt"}


class NoticeError(Exception):
    """A package whose licence is missing, unknown or not allowed."""


class Work:
    """A package or library of others, or of this workspace if it is `own`."""

    def __init__(self, name, version, licence, *, texts=(), address=None, own=False):
        self.name, self.version, self.licence = name, version, licence
        self.texts, self.address, self.own = list(texts), address, own
        self.linked = False
        self.sha256 = None
        self.is_package = False
        self.targets = set()
        self.dependencies = set()

    @property
    def ref(self):
        """The key in the bill of materials."""
        kind = "cargo" if self.is_package else "generic"
        return f"pkg:{kind}/{self.name}@{self.version}"


def cargo(*arguments):
    """Returns the output of cargo, run in the repository."""
    done = subprocess.run(["cargo", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise NoticeError(f"`cargo {' '.join(arguments)}` failed")
    return done.stdout


def tree(package, target, features, edges):
    """Returns the packages `(name, version)` in the program, and for each the packages that it depends on."""
    arguments = ["tree", "--locked", "--package", package, "--target", target, "--edges", edges]
    arguments += ["--prefix", "depth", "--format", "|{p}"] + (["--features", features] if features else [])
    found, path = {}, []
    for line in cargo(*arguments).splitlines():
        depth, name, version = re.match(r"(\d+)\|(\S+) v(\S+)", line).groups()
        found.setdefault((name, version), set())
        del path[int(depth):]
        if path:
            found[path[-1]].add((name, version))
        path.append((name, version))
    return found


# Licence expressions.

def alternatives(expression):
    """Returns the sets of licences that satisfy an SPDX expression, such as [{MIT}, {Apache-2.0}] for `MIT OR Apache-2.0`.

    Old packages write `/` for `OR`.
    """
    words = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))

    def one():
        if not words:
            raise ValueError
        word = words.pop(0)
        if word == "(":
            inner = either()
            if not words or words.pop(0) != ")":
                raise ValueError
            return inner
        if words[:1] == ["WITH"]:
            word = f"{word} WITH {words[1]}"
            del words[:2]
        return [{word}]

    def both():
        result = one()
        while words[:1] == ["AND"]:
            words.pop(0)
            right = one()
            result = [left | other for left in result for other in right]
        return result

    def either():
        result = both()
        while words[:1] == ["OR"]:
            words.pop(0)
            result = result + both()
        return result

    try:
        result = either()
    except (IndexError, ValueError):
        words = ["unfinished"]
    if words:
        raise NoticeError(f"the licence `{expression}` is no SPDX expression")
    return result


def spdx(expression):
    """Returns the expression in the form that SPDX prescribes."""
    return re.sub(r"\s*/\s*", " OR ", expression)


# Texts of licences.

def read(path):
    """Returns a text without trailing blanks, with the line ends of Unix."""
    text = path.read_bytes().decode("utf-8", "replace").replace("\r\n", "\n").replace("\f", "\n")
    return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n")


def texts_in(folder):
    """Returns the texts of licences in a folder and below, with their paths."""
    found = []
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in OTHER_FOLDERS and not name.startswith("."))
        in_licences = pathlib.Path(place).name.lower() in ("licenses", "licences")
        for name in sorted(files):
            path = pathlib.Path(place) / name
            if path.suffix.lower() in OTHER_ENDINGS or not (in_licences or TEXT_NAME.match(name)):
                continue
            text = read(path)
            # Some packages refer to files that they do not contain.
            if len(text) > 100:
                found.append((str(path.relative_to(folder)), text))
    return found


def standard_text(name, licence, authors):
    """Returns a standard text, for a package that has no text."""
    for choice, file in STANDARD_TEXTS.items():
        if {choice} in alternatives(licence):
            text = read(ROOT / file)
            if choice == "MIT":
                owners = ", ".join(re.sub(r"\s*<.*?>", "", author) for author in authors) or f"the authors of {name}"
                text = re.sub(r"(?m)^Copyright .*$", f"Copyright (c) {owners}", text)
            return (f"standard text of {choice}", text)
    raise NoticeError(f"{name}: no text of `{licence}` in the package, and no standard text of it here")


class Html(HTMLParser):
    """Collects the text of a page."""

    def __init__(self):
        super().__init__()
        self.parts = []

    def handle_data(self, data):
        self.parts.append(data)


def standard_library():
    """Returns Rust's standard library, with the notices that the compiler brings for it and its own dependencies."""
    rustc = ["rustc", "--print", "sysroot"]
    sysroot = subprocess.run(rustc, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    version = subprocess.run(["rustc", "--version"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    page = pathlib.Path(sysroot) / "share/doc/rust/COPYRIGHT-library.html"
    if not page.is_file():
        raise NoticeError(f"{page}: the compiler brings no notices for the standard library")
    html = Html()
    html.feed(read(page))
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(line.strip() for line in "".join(html.parts).split("\n"))).strip()
    texts = [(page.name, text), ("LICENSE-APACHE", read(ROOT / "LICENSE-APACHE"))]
    return Work("rust-std", version.split()[1], "MIT OR Apache-2.0", texts=texts)


def of_zig(library, target):
    """Returns what Zig links into the program for a target."""
    asked = [library.parent / "zig", "version"]
    version = subprocess.run(asked, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    parts = [
        ("zig-compiler-rt", "MIT", library.parent / "LICENSE"),
        ("libunwind", "Apache-2.0 WITH LLVM-exception", library / "libunwind/LICENSE.TXT"),
    ]
    if target.endswith("musl"):
        parts.append(("musl", "MIT", library / "libc/musl/COPYRIGHT"))
    if "windows" in target:
        parts.append(("mingw-w64", "LicenseRef-mingw-w64", library / "libc/mingw/COPYING"))
    for name, licence, path in parts:
        if not path.is_file():
            raise NoticeError(f"{name}: no text of its licence at {path}")
        yield Work(name, f"zig-{version}", licence, texts=[(path.name, read(path))])


# All works.

def checksums():
    """Returns the SHA-256 of packages by name and version."""
    with open(ROOT / "Cargo.lock", "rb") as file:
        packages = tomllib.load(file)["package"]
    return {(package["name"], package["version"]): package.get("checksum") for package in packages}


def program_package():
    """Returns the name of the package with the program."""
    for package in json.loads(cargo("metadata", "--format-version", "1", "--no-deps", "--locked"))["packages"]:
        if any(target["name"] == "formwork" and "bin" in target["kind"] for target in package["targets"]):
            return package["name"]
    raise NoticeError("no package of the workspace has the program `formwork`")


def collect(root, targets, zig):
    """Returns all works in the program by their keys, for all targets."""
    works, sums = {}, checksums()
    with open(ROOT / "deny.toml", "rb") as file:
        allowed = set(tomllib.load(file)["licenses"]["allow"])
    for target, features in targets:
        described = cargo("metadata", "--format-version", "1", "--locked", "--filter-platform", target)
        packages = {(package["name"], package["version"]): package for package in json.loads(described)["packages"]}
        linked = tree(root, target, features, "normal,no-proc-macro")
        for key, dependencies in tree(root, target, features, "normal,build").items():
            work = works.get(key) or works.setdefault(key, package_work(packages[key], sums.get(key), allowed))
            work.targets.add(target)
            work.linked |= key in linked
            work.dependencies |= dependencies
        for work in [standard_library(), *(of_zig(zig, target) if zig else [])]:
            work = works.setdefault((work.name, work.version), work)
            work.targets.add(target)
            work.linked = True
    return works


def package_work(package, sha256, allowed):
    """Returns a package with its texts. Fails if its licence is missing or not allowed."""
    name, licence = package["name"], package["license"]
    own = package["source"] is None
    if not licence and not package["license_file"]:
        raise NoticeError(f"{name} {package['version']}: the package states no licence")
    if licence and not any(choice <= allowed for choice in alternatives(licence)):
        raise NoticeError(f"{name} {package['version']}: deny.toml does not allow the licence `{licence}`")
    folder = pathlib.Path(package["manifest_path"]).parent
    texts = []
    if not own:
        texts = texts_in(folder)
        stated = package["license_file"]
        if stated and stated not in [path for path, _ in texts]:
            texts.append((stated, read(folder / stated)))
        if not texts:
            texts = [standard_text(name, licence, package["authors"])]
    work = Work(name, package["version"], spdx(licence or f"LicenseRef-{name}"), texts=texts,
                address=package["repository"], own=own)
    work.is_package, work.sha256 = True, sha256
    return work


# Outputs.

def notices(version, works):
    """Returns the text of the notices."""
    texts, numbers = [], {}

    def numbers_of(work):
        for path, text in work.texts:
            # Texts that differ only in their line breaks are equal.
            key = " ".join(text.split())
            if key not in numbers:
                numbers[key] = len(texts) + 1
                texts.append(text)
            yield numbers[key]

    def table(linked):
        for work in sorted(works, key=lambda work: (work.name.lower(), work.version)):
            if work.own or work.linked != linked:
                continue
            where = ", ".join(map(str, dict.fromkeys(numbers_of(work))))
            yield f"{work.name} {work.version}\n    licence: {work.licence}\n    texts: {where}"
            if work.address:
                yield f"    source: {work.address}"

    lines = [f"Formwork {version} contains works of others.", "This file lists them with their licences.",
             "The numbers refer to the texts at the end.", "", "", "PARTS OF THE PROGRAM", "", *table(True),
             "", "", "USED TO BUILD THE PROGRAM, NOT PARTS OF IT", "", *table(False), "", "", "TEXTS"]
    for number, text in enumerate(texts, 1):
        lines += ["", "-" * 100, f"Text {number}", "-" * 100, "", text]
    return "\n".join(lines) + "\n"


def bill(root, works):
    """Returns the bill of materials in CycloneDX's form."""
    program = works[root]

    def component(work):
        entry = {"type": "library", "bom-ref": work.ref, "name": work.name, "version": work.version,
                 "scope": "required" if work.linked else "excluded"}
        if work.sha256:
            entry["hashes"] = [{"alg": "SHA-256", "content": work.sha256}]
        entry["licenses"] = [{"expression": work.licence}]
        if work.is_package:
            entry["purl"] = work.ref
        if work.address:
            entry["externalReferences"] = [{"type": "vcs", "url": work.address}]
        entry["properties"] = [{"name": "formwork:target", "value": target} for target in sorted(work.targets)]
        return entry

    others = sorted((work for work in works.values() if work is not program), key=lambda work: work.ref)
    components = [component(work) for work in others]
    dependencies = [{"ref": work.ref, "dependsOn": sorted(works[key].ref for key in work.dependencies)}
                    for work in [program, *others]]
    metadata = {"component": {"type": "application", "bom-ref": program.ref, "name": "formwork",
                              "version": program.version, "licenses": [{"expression": program.licence}],
                              "purl": program.ref}}
    if "SOURCE_DATE_EPOCH" in os.environ:
        time = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
        metadata = {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"), **metadata}
    # Equal contents have equal numbers.
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([metadata, components, dependencies]))
    return {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{serial}", "version": 1,
            "metadata": metadata, "components": components, "dependencies": dependencies}


def main():
    """Reads the arguments and writes the files."""
    parser = argparse.ArgumentParser(description="Write the licences and the bill of materials of the program.")
    parser.add_argument("--package", help="package with the program [default: the one with the program `formwork`]")
    parser.add_argument("--target", action="append", required=True, metavar="TARGET[=FEATURES]",
                        help="target with the features of its build; repeat for several")
    parser.add_argument("--zig", type=pathlib.Path, metavar="FOLDER", help="folder `lib` of the Zig that links the program")
    parser.add_argument("--notices", type=pathlib.Path, metavar="FILE", help="file for the licences")
    parser.add_argument("--bom", type=pathlib.Path, metavar="FILE", help="file for the bill of materials")
    arguments = parser.parse_args()
    try:
        package = arguments.package or program_package()
        targets = [(target, features) for target, _, features in (one.partition("=") for one in arguments.target)]
        works = collect(package, targets, arguments.zig)
        root = next(key for key in works if key[0] == package)
        if arguments.notices:
            arguments.notices.write_text(notices(root[1], works.values()), encoding="utf-8")
        if arguments.bom:
            text = json.dumps(bill(root, works), indent=1, ensure_ascii=False)
            arguments.bom.write_text(text + "\n", encoding="utf-8")
    except (NoticeError, OSError) as error:
        print(f"notices.py: {error}", file=sys.stderr)
        return 1
    others = [work for work in works.values() if not work.own]
    print(f"{len(others)} works of others, {sum(work.linked for work in others)} of them in the program", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
