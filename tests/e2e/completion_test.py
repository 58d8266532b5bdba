# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Completion in a real bash on a terminal: the script is sourced, and keys are typed."""
import os
import pty
import subprocess
import threading
import unittest

from heddle_command import HeddleTestCase, environment, heddle_path


class Completion(HeddleTestCase):
    def typed(self, *lines):
        """The lines as bash completes them; \\t is the Tab key."""
        variables = {**environment(), "PATH": f"{heddle_path().parent}:{os.environ['PATH']}", "INPUTRC": os.devnull, "TERM": "dumb",
                     "HOME": str(self.folder), "HISTFILE": ""}
        parent, child = pty.openpty()
        shell = subprocess.Popen(["/bin/bash", "--norc", "--noprofile", "-i"], stdin=child, stdout=child, stderr=child, cwd=self.folder,
                                 env=variables, start_new_session=True)
        os.close(child)
        limit = threading.Timer(120, shell.kill)
        limit.start()
        # Ctrl-T writes the line to a file and empties it.
        keys = ["source <(heddle completion bash)\n", """bind -x '"\\C-t": printf "%s\\n" "$READLINE_LINE" >>lines.txt; READLINE_LINE='\n"""]
        keys += [f"{line}\x14" for line in lines] + ["exit\n"]
        os.write(parent, "".join(keys).encode())
        try:
            while os.read(parent, 4096):  # the echo
                pass
        except OSError:
            pass  # the shell has ended
        os.close(parent)
        self.assertEqual(shell.wait(), 0)
        limit.cancel()
        return (self.folder / "lines.txt").read_text().splitlines()

    def test_commands_flags_values_and_files(self):
        (self.folder / "a model.onnx").touch()
        (self.folder / "weights").mkdir()
        (self.folder / "plugin.toml").touch()
        cases = {
            "heddle compile a\t": "heddle compile a\\ model.onnx ",
            "heddle compile -o wei\t": "heddle compile -o weights/",
            "heddle compile --anno\t": "heddle compile --annotate-affinity ",
            "heddle compile m.onnx --math st\t": "heddle compile m.onnx --math strict ",
            "heddle run m --param-mode=pre\t": "heddle run m --param-mode=preload ",
            "heddle run m --input x=@pl\t": "heddle run m --input x=@plugin.toml",
            "heddle conformance --plu\t": "heddle conformance --plugin ",
            "heddle conformance --plugin pl\t": "heddle conformance --plugin plugin.toml ",
            "heddle tune a\t": "heddle tune a\\ model.onnx ",
            "heddle import --list\t": "heddle import --list-operators ",
            "heddle opt --allow-unreg\t": "heddle opt --allow-unregistered-dialect ",
            "heddle config eff\t": "heddle config effective ",
            "heddle config check pl\t": "heddle config check plugin.toml ",
            "heddle params dif\t": "heddle params diff ",
            "heddle params diff pl\t": "heddle params diff plugin.toml ",
            "heddle-run --stat\t": "heddle-run --statistics ",
            "heddle help plug\t": "heddle help plugins ",
        }
        self.assertEqual(self.typed(*cases), list(cases.values()))

    def test_every_command_has_candidates(self):
        commands = [line for line in self.succeed("completion", "--words", "").stdout.splitlines() if not line.startswith("-")]
        self.assertIn("compile", commands)
        for command in commands:
            of_python = command in ("diff", "reduce", "breaks")
            if command == "help" or of_python and not (heddle_path().parent / f"heddle-{command}").exists():
                continue
            with self.subTest(command=command):
                flags = self.succeed("completion", "--words", command, *(["diff"] if command == "params" else []), "--").stdout.split()
                self.assertTrue(flags)
                self.assertTrue(all(flag.startswith("--") for flag in flags), flags)


if __name__ == "__main__":
    unittest.main()
