# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints what the host says of each fake plugin of these tests, all installed at once, as a Markdown table.

usage: fault_table.py HEDDLE FOLDER    (build/release/bin/heddle build/release/tests/loader/plugins)
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile


def main():
    command, folder = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    build = pathlib.Path(command).resolve().parent.parent
    with tempfile.TemporaryDirectory(prefix="heddle-faults-") as name:
        # A build for another processor: a good one whose ELF header says so.
        elsewhere = bytearray((folder / "good.so").read_bytes())
        elsewhere[18:20] = (183).to_bytes(2, "little")  # EM_AARCH64
        (pathlib.Path(name) / "other_architecture.so").write_bytes(elsewhere)
        for library in sorted([*folder.glob("*.so"), pathlib.Path(name) / "other_architecture.so"], key=lambda path: path.stem):
            (pathlib.Path(name) / f"fake.{library.stem}.toml").write_text(
                f'manifest = 1\n[plugin]\nid = "fake.{library.stem}"\nversion = "1.0.0"\nkind = ["driver"]\nlibrary = "{library}"\n'
                'abi = ["0.1", "0.1"]\n[load]\ntimeout_ms = 5000\n')
        environment = {**os.environ, "HEDDLE_PLUGIN_PATH": name, "XDG_CACHE_HOME": f"{name}/cache"}
        listed = subprocess.run([command, "plugins", "--format", "json"], env=environment, check=True, capture_output=True, text=True)
    plugins = [plugin for plugin in json.loads(listed.stdout)["plugins"] if plugin["id"].startswith("fake.")]
    print("| plugin | state | reason |\n| --- | --- | --- |")
    for plugin in plugins:
        reason = plugin.get("reason", "").replace(str(folder) + "/", "").replace(name + "/", "").replace(str(build) + "/", "").replace("|", "\\|")
        reason = re.sub("x{20,}", "xxxx...", reason)
        print(f"| {plugin['id'].removeprefix('fake.')} | {plugin['state']} | {reason or '-'} |")
    print(f"\n{len(plugins)} plugins, {sum(plugin['state'] == 'available' for plugin in plugins)} available; the command ended with 0.")


if __name__ == "__main__":
    main()
