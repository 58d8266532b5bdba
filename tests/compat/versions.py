# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The versions that matrix_test.py combines: the archived minors, this build, and a next minor that is made up from the present headers.

A version is a folder: bin (application, heddle-probe, heddle-conformance), lib (libheddle.so.0), plugins (manifests and libraries; the templates in folders
of their own, with what the kit reads beside them).
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

import next_minor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import writable  # noqa: E402

SOURCE = pathlib.Path(os.environ["HEDDLE_SOURCE"])
BUILD = pathlib.Path(os.environ["HEDDLE_BUILD"])
HERE = SOURCE / "tests" / "compat"
TEMPLATES = ("driver/cpp", "driver/c", "allocator/cpp", "allocator/c", "library/cpp", "library/c")


def unpack(folder):
    """{"0.1": its folder, ...} of every archive."""
    found = {}
    for archive in sorted(HERE.glob("0.*.tar.xz")):
        with tarfile.open(archive) as tar:
            tar.extractall(folder)  # noqa: S202: written by tools/dev/freeze-abi, committed here
        name = archive.name.removesuffix(".tar.xz")
        found[name] = folder / name
        # The libraries are a build tree's, where CMake left an empty entry in their RUNPATH, which hosts refuse by now. An installation takes it out,
        # and so does this, in the same way.
        for library in sorted((folder / name / "plugins").glob("*.so")):
            script = folder / "remove_run_path.cmake"
            script.write_text(f'file(RPATH_REMOVE FILE "{library}")\n', encoding="utf-8")
            run(["cmake", "-P", script])
    return found


def copy_build(folder):
    """This build, laid out as an archive is."""
    for part in ("bin", "lib", "plugins"):
        (folder / part).mkdir(parents=True)
    writable.copy(BUILD / "tests" / "compat_application", folder / "bin" / "application")
    for name in ("heddle-probe", "heddle-conformance"):
        writable.copy(BUILD / "bin" / name, folder / "bin" / name)
    writable.copy(BUILD / "lib" / "libheddle.so.0", folder / "lib" / "libheddle.so.0")
    for name in ("heddle.cpu.toml", "libheddle_cpu.so", "heddle.pool.toml", "libheddle_pool.so"):
        writable.copy(BUILD / "lib" / "heddle" / "plugins.d" / name, folder / "plugins" / name)
    for template in TEMPLATES:
        writable.copytree(BUILD / "tests" / "template" / template, folder / "plugins" / template,
                        ignore=shutil.ignore_patterns("CMakeFiles", "*.cmake"))
    return folder


def run(command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=900, **more)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(str(word) for word in command)} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
    return done


def refresh(source, target):
    """Copies what differs, so that what was built from the rest stays; removes what is gone."""
    wanted = {path.relative_to(source) for path in source.rglob("*") if path.is_file()}
    for name in wanted:
        content = (source / name).read_bytes()
        if not (target / name).is_file() or (target / name).read_bytes() != content:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes(content)
    for path in [path for path in target.rglob("*") if path.is_file() and path.relative_to(target) not in wanted]:
        path.unlink()


def build(source, folder, *settings, targets=("all",)):
    launcher = shutil.which("ccache")
    launch = [f"-DCMAKE_{language}_COMPILER_LAUNCHER={launcher}" for language in ("C", "CXX")] if launcher else []
    run(["cmake", "-S", source, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", *launch, *settings])
    run(["cmake", "--build", folder, "-j", "3", "--target", *targets])


def lay_out(kept, folder):
    """Sources of the next minor: headers grown, templates with functions in the new ends of their tables. Gives the minor, and what has grown."""
    for part in ("core", "plugins", "sdk", "tools"):
        writable.copytree(SOURCE / part, folder / part, ignore=shutil.ignore_patterns("include", "__pycache__") if part == "sdk" else None)
    for name in ("CMakeLists.txt", "LICENSE", "README.md"):
        writable.copy(SOURCE / name, folder / name)
    minor, grown = next_minor.write(SOURCE / "sdk" / "include", folder / "sdk" / "include")
    for template in TEMPLATES:
        project = folder / "sdk" / "template" / template
        text = (project / "CMakeLists.txt").read_text(encoding="utf-8")
        target = re.search(r"add_library\((\w+) MODULE ([^)]*)\)", text)
        language = "cpp" if template.endswith("cpp") else "c"
        writable.copy(HERE / "next_minor_tables.inc", project / f"next_minor_tables.{language}")
        (project / "CMakeLists.txt").write_text(
            text + f"\nset_source_files_properties({target[2]} PROPERTIES COMPILE_DEFINITIONS heddle_plugin_entry_0=heddle_template_entry)\n"
            f"target_sources({target[1]} PRIVATE next_minor_tables.{language})\n", encoding="utf-8")
    for manifest in [*folder.glob("plugins/**/*.toml"), *folder.glob("sdk/template/*/*/*.toml")]:
        said = manifest.read_text(encoding="utf-8")
        manifest.write_text(re.sub(r'^abi = \["(0\.\d+)", "0\.\d+"\]', rf'abi = ["\1", "0.{minor}"]', said, flags=re.MULTILINE), encoding="utf-8")
    writable.copy(HERE / "application.c", folder / "application.c")
    refresh(folder, kept)
    return minor, grown


def make_next(scratch, kept, folder):
    """Builds the next minor in `kept`, which may have what was built before. Gives its minor and the names of what has grown."""
    source, host = kept / "source", kept / "build" / "host"
    minor, grown = lay_out(source, scratch / "laid-out")
    for part in ("bin", "lib", "plugins"):
        (folder / part).mkdir(parents=True)
    for template in TEMPLATES:
        built = kept / "build" / template
        build(source / "sdk" / "template" / template, built, f"-DHEDDLE_SOURCE={source}")
        (folder / "plugins" / template).mkdir(parents=True)
        for path in [*built.glob("*.so"), *built.glob("*.toml")]:
            writable.copy(path, folder / "plugins" / template)
        if (built / "conformance").is_dir():
            writable.copytree(built / "conformance", folder / "plugins" / template / "conformance")
    # Our sources know nothing of the fields that are new.
    flags = "-Wno-missing-field-initializers"
    build(source, host, "-DHEDDLE_COMPILER=OFF", "-DHEDDLE_TESTS=OFF", "-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_CXX_FLAGS_DEBUG=", f"-DCMAKE_C_FLAGS={flags}", f"-DCMAKE_CXX_FLAGS={flags}",
          targets=("heddle", "heddle_probe", "heddle_cpu", "heddle_pool", "heddle-conformance"))
    for name in ("heddle-probe", "heddle-conformance"):
        writable.copy(host / "bin" / name, folder / "bin")
    writable.copy(host / "lib" / "libheddle.so.0", folder / "lib")
    for name in ("heddle.cpu.toml", "libheddle_cpu.so", "heddle.pool.toml", "libheddle_pool.so"):
        writable.copy(host / "lib" / "heddle" / "plugins.d" / name, folder / "plugins")
    run(["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-DHEDDLE_NEXT_MINOR", f"-I{source / 'sdk' / 'include'}", source / "application.c",
         f"-L{BUILD / 'lib'}", "-lheddle", "-lm", "-o", folder / "bin" / "application"])
    return minor, grown


def flatten(version, target):
    """A folder with all manifests and libraries of a version."""
    target.mkdir(parents=True)
    for path in [*(version / "plugins").rglob("*.toml"), *(version / "plugins").rglob("*.so")]:
        if path.parent.name != "conformance":
            writable.copy(path, target / path.name)
    return target
