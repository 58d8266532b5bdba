# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`heddle plugins`, start to finish, with 0, 1, 10 and 50 more plugins installed than there are anyway: with no verdict
cached, so that each is looked at in a child process, and with all of them cached.

The plugins are copies of a driver of the tests under names of their own, each a library of its own.
"""
import argparse
import os
import pathlib
import subprocess
import tempfile

import heddle_ctypes
import turns

COUNTS = (0, 1, 10, 50)
ID = b"fake.good\0"


def install(folder, library, count):
    """`count` plugins that differ in id; ids are as long as the library's own, which is replaced in its copies."""
    folder.mkdir()
    content = library.read_bytes()
    assert content.count(ID) == 1, f"{library} holds its id {content.count(ID)} times"
    for index in range(count):
        name = f"fake.{index:04}"
        (folder / f"{name}.so").write_bytes(content.replace(ID, name.encode() + b"\0"))
        (folder / f"{name}.toml").write_text(
            f'manifest = 1\n[plugin]\nid = "{name}"\nversion = "1.0.0"\nkind = ["driver"]\nlibrary = "{name}.so"\nabi = ["0.1", "0.1"]\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", type=pathlib.Path, help="build/release/tests/loader/plugins/good.so")
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    command = [str(heddle_ctypes.command_path()), "plugins"]
    with tempfile.TemporaryDirectory(prefix="heddle-plugins-") as name:
        root = pathlib.Path(name)
        contenders = {}
        for count in COUNTS:
            install(root / str(count), arguments.library, count)
            environment = {**os.environ, "HEDDLE_PLUGIN_PATH": str(root / str(count)), "XDG_CACHE_HOME": str(root / f"cache{count}")}
            environment.pop("HEDDLE_CONFIG", None)

            def cached(environment=environment):
                return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout

            def cold(cached=cached, environment=environment):
                with tempfile.TemporaryDirectory(prefix="cache-", dir=root) as empty:
                    return cached({**environment, "XDG_CACHE_HOME": empty})

            available = sum(line.startswith("fake.") and " available" in line for line in cold().splitlines())
            assert available == count, f"{available} of {count} are available"
            contenders[count, "cold"] = cold
            contenders[count, "cached"] = cached
        # Each alone and many times, since a cold call takes away what a cached one needs.
        medians = {}
        for state in ("cold", "cached"):
            of_state = {key: call for key, call in contenders.items() if key[1] == state}
            for call in of_state.values():
                call()
            medians.update(turns.measure(of_state, rounds=arguments.rounds, seconds=0.1))
        rows = [[str(count), *(f"{turns.milliseconds(medians[count, state])} ms" for state in ("cold", "cached")),
                 f"{turns.ratio(medians, (count, 'cached'), (0, 'cached')):.2f}"] for count in COUNTS]
    print(turns.machine())
    print(turns.table(["plugins added", "none cached", "all cached", "cached, against none added"], rows))


if __name__ == "__main__":
    main()
