#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes what is absent as a table in Markdown: plugin, case and the reason that the kit gives. The plugins are those of a build, or what
`heddle-conformance --json` printed elsewhere, on a machine with a GPU say.

usage: tests/conformance/absent.py BUILD [RESULT.json ...]"""
import json
import pathlib
import subprocess
import sys


def manifests(build):
    places = ("lib/heddle/plugins.d", "tests/plugins.d", "tests/library/plugins.d", "tests/template/driver/cpp", "tests/template/driver/c",
              "tests/template/allocator/cpp", "tests/template/allocator/c", "tests/template/library/cpp", "tests/template/library/c")
    return [file for place in places for file in sorted((build / place).glob("*.toml"))]


def result_of(build, manifest):
    """None where the plugin has no device here."""
    kit = build / "bin" / "heddle-conformance"
    beside = build / "lib/heddle/plugins.d" / ("heddle.pool.toml" if manifest.stem == "heddle.cpu" else "heddle.cpu.toml")
    arguments = ["--beside", str(beside)]
    done = subprocess.run([kit, "--plugin", manifest, "--json", "--jobs", "4", *arguments], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"absent.py: {manifest}: {done.stderr}")
    result = json.loads(done.stdout)
    probe = next(case for case in result["cases"] if case["name"] == "plugin.probe")
    return None if probe["outcome"] == "failed" else result


def rows(result):
    if result["failed"]:
        sys.exit(f"absent.py: {result['id']}: {result['failed']} cases failed")
    return [(result["id"], case["name"], case["texts"][0]) for case in result["cases"] if case["outcome"] == "absent"]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    build = pathlib.Path(sys.argv[1]).resolve()
    results, elsewhere = [], []
    for manifest in manifests(build):
        result = result_of(build, manifest)
        (results if result else elsewhere).append(result or manifest.stem)
    results += [json.loads(pathlib.Path(name).read_text(encoding="utf-8")) for name in sys.argv[2:]]
    print("| plugin | passed | absent case | why |\n| --- | ---: | --- | --- |")
    for result in results:
        found = rows(result) or [(result["id"], "none", "")]
        for i, (plugin, case, why) in enumerate(found):
            print(f"| {f'`{plugin}`' if i == 0 else ''} | {result['passed'] if i == 0 else ''} | {case} | {why} |")
    for plugin in elsewhere:
        print(f"\n`{plugin}` has no device here, and is in no row.")


if __name__ == "__main__":
    main()
