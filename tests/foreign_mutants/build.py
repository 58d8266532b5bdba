#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds the foreign mutants: each patch beside this file, applied to a copy of the templates and of sdk/cpp and built out of the tree, with
the headers alone in C and against the build's libheddle_sdk_cpp.a in C++. A patch that does not apply, or a plugin that does not load, fails.

  build.py BUILD OUT    OUT/<template>/<mutant>/ gets the library, its manifest, and what heddle-conformance reads beside it
"""
import concurrent.futures
import ctypes
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
# Folder of the template below sdk/, its sources, its library.
TEMPLATES = {
    "driver_c": ("template/driver/c", ["driver.c", "work.c"], "libsample_driver_c.so"),
    "driver_cpp": ("template/driver/cpp", ["plugin.cpp", "device.cpp", "code.cpp"], "libsample_driver.so"),
    "allocator_c": ("template/allocator/c", ["allocator.c"], "libsample_allocator_c.so"),
    "allocator_cpp": ("template/allocator/cpp", ["arena.cpp"], "libsample_allocator.so"),
}


def run(*command, cwd=None):
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} failed:\n{(done.stdout + done.stderr)[-2000:]}")


def compile_one(sdk, source, target):
    """sdk: the copy; its own headers come before the tree's, so that a patched one counts."""
    includes = [f"-I{sdk / 'cpp'}", f"-I{SOURCE / 'sdk/include'}"]
    if source.suffix == ".c":
        run(os.environ.get("CC", "cc"), "-std=c11", "-O1", "-fPIC", "-fvisibility=hidden", *includes, "-c", source, "-o", target)
    else:
        run(os.environ.get("CXX", "c++"), "-std=c++20", "-O0", "-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden", *includes, "-c",
            source, "-o", target)


def build(patch, build_folder, out):
    template = patch.parent.name
    folder, sources, library = TEMPLATES[template]
    made = out / template / patch.stem
    shutil.rmtree(made, ignore_errors=True)
    sdk = made / "sdk"
    for part in ("cpp", folder):
        shutil.copytree(SOURCE / "sdk" / part, sdk / part)
    run("patch", "--strip=1", "--fuzz=0", "--no-backup-if-mismatch", "--batch", "--forward", f"--input={patch}", cwd=made)
    # What the mutant changes of sdk/cpp comes before the archive, which then gives the rest.
    changed = [path for path in sorted((sdk / "cpp").glob("*.cpp")) if path.read_bytes() != (SOURCE / "sdk/cpp" / path.name).read_bytes()]
    objects = []
    for source in [sdk / folder / name for name in sources] + changed:
        objects.append(made / (source.name + ".o"))
        compile_one(sdk, source, objects[-1])
    archive = [build_folder / "lib/libheddle_sdk_cpp.a"] if template.endswith("_cpp") else []
    run(os.environ.get("CXX" if archive else "CC", "c++" if archive else "cc"), "-shared", *objects, *archive,
        f"-Wl,--version-script={sdk / folder / 'plugin.map'}", "-Wl,-z,defs", "-Wl,-z,now", "-pthread", "-lm", "-o", made / library)
    for manifest in (sdk / folder).glob("*.toml"):
        shutil.copy(manifest, made)
    if (sdk / folder / "conformance").is_dir():
        shutil.copytree(sdk / folder / "conformance", made / "conformance")
    loaded = ctypes.CDLL(str(made / library), os.RTLD_NOW | os.RTLD_LOCAL)
    loaded.heddle_plugin_entry_0  # AttributeError without an entry
    return made / library


def main():
    build_folder, out = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    patches = sorted(HERE.glob("*/*.patch"))
    failures = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for patch, job in [(patch, pool.submit(build, patch, build_folder, out)) for patch in patches]:
            try:
                job.result()
            except Exception as error:  # each is told, not the first alone
                failures += 1
                print(f"{patch.parent.name}/{patch.stem}: {error}")
    print(f"{len(patches) - failures} of {len(patches)} mutants built and loaded")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
