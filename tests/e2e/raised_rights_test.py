# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`heddle` with other rights than its caller's: as a set-user-ID program, a set-group-ID program, and one with capabilities. The caller is an
attacker, and tries all that a caller can name. Needs root, and a mount namespace in which /etc is made up.
"""
import json
import os
import pathlib
import shutil
import stat
import subprocess
import tempfile
import unittest

import heddle_command

CALLER = 12345
SERVICE = 65534
KINDS = ("user", "group", "capabilities")
# A tmpfs over /etc, where libraries are found through ld.so.cache: with raised rights $ORIGIN counts for nothing.
IN_NAMESPACE = """set -e
mount -t tmpfs -o mode=755 none /etc
echo "$1/lib" > /etc/ld.so.conf
$(command -v ldconfig || echo /sbin/ldconfig)
if [ -d "$1/etc" ]; then cp -a "$1/etc" /etc/heddle; fi
shift
exec setpriv --reuid 12345 --regid 12345 --clear-groups "$@"
"""


class RaisedRights(unittest.TestCase):
    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("SKIP: needs root, to give a program another user's rights")
        if os.environ.get("HEDDLE_SANITIZE"):
            self.skipTest("SKIP: a sanitizer reads its options where a process with raised rights may not")
        binaries = heddle_command.heddle_path()
        if binaries is None:
            self.skipTest("SKIP: heddle is not built")
        built = binaries.parent.parent
        # Beside the build: /tmp is everybody's, so that nothing in it is trusted.
        folder = tempfile.TemporaryDirectory(prefix="raised-", dir=built)
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.root.chmod(0o755)
        for part in self.root.parents:
            if part.stat().st_uid != 0 or part.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                self.skipTest(f"SKIP: {part} is not safe from others")
        for name in ("bin", "lib", "lib/heddle/plugins.d", "theirs"):
            (self.root / name).mkdir(parents=True)
        shutil.copy(built / "bin" / "heddle-probe", self.root / "bin")
        shutil.copy(built / "lib" / "libheddle.so.0", self.root / "lib")
        for path in (built / "lib" / "heddle" / "plugins.d").glob("*heddle*cpu*"):
            shutil.copy(path, self.root / "lib" / "heddle" / "plugins.d")
        for kind in ("plain", *KINDS):
            shutil.copy(binaries, self.root / "bin" / kind)
        for path in self.root.rglob("*"):
            path.chmod(path.stat().st_mode & ~0o022)
        os.chown(self.root / "bin" / "user", SERVICE, SERVICE)
        (self.root / "bin" / "user").chmod(0o4755)
        os.chown(self.root / "bin" / "group", 0, SERVICE)
        (self.root / "bin" / "group").chmod(0o2755)
        path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
        given = subprocess.run(["setcap", "cap_dac_override+ep", self.root / "bin" / "capabilities"], capture_output=True, env={"PATH": path})
        self.kinds = KINDS if given.returncode == 0 else KINDS[:2]
        if given.returncode != 0:
            print(f"SKIP: no capabilities here: {given.stderr.decode(errors='replace').strip()}")
        self.theirs = self.root / "theirs"
        os.chown(self.theirs, CALLER, CALLER)
        if self.run_as("plain", "--version").returncode != 0:
            self.skipTest("SKIP: no mount namespace can be made here, or another user may not enter a folder above the build (umask 077)")

    def their(self, name, text, mode=0o644):
        path = self.theirs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        for one in (path, path.parent):
            os.chown(one, CALLER, CALLER)
        return path

    def system_file(self, text, mode=0o644):
        (self.root / "etc").mkdir(exist_ok=True)
        path = self.root / "etc" / "heddle.toml"
        path.write_text(text)
        path.chmod(mode)

    def run_as(self, kind, *arguments, **variables):
        """A heddle of that kind, started by the caller."""
        environment = {"PATH": f"{self.theirs}:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.theirs), **variables}
        return subprocess.run(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", IN_NAMESPACE, "sh", self.root, self.root / "bin" / kind, *arguments],
            env=environment, capture_output=True, text=True, errors="replace", timeout=120, stdin=subprocess.DEVNULL, cwd=self.theirs)

    def plugins(self, kind, *arguments, **variables):
        result = self.run_as(kind, "plugins", "--format", "json", *arguments, **variables)
        self.assertEqual(result.returncode, 0, result.stderr)
        return {plugin["id"]: plugin for plugin in json.loads(result.stdout)["plugins"]}

    def test_no_program_of_the_caller_is_started(self):
        self.their("heddle-evil", "#!/bin/sh\necho it ran\n", 0o755)
        self.assertIn("it ran", self.run_as("plain", "evil").stdout)
        for kind in self.kinds:
            result = self.run_as(kind, "evil")
            self.assertEqual((result.returncode, result.stdout), (2, ""), kind)
            self.assertIn("runs with raised privileges and starts no other program", result.stderr)

    def test_a_plugin_of_the_caller_is_not_trusted(self):
        manifests = self.theirs / "plugins.d"
        manifest = (self.root / "lib/heddle/plugins.d/heddle.cpu.toml").read_text()
        self.their("plugins.d/heddle.cpu.toml", manifest)
        shutil.copy(self.root / "lib/heddle/plugins.d/libheddle_cpu.so", manifests)
        os.chown(manifests / "libheddle_cpu.so", CALLER, CALLER)
        self.assertEqual(self.plugins("plain", "--plugin-path", manifests)["heddle.cpu"]["manifest"], str(manifests / "heddle.cpu.toml"))
        for kind in self.kinds:
            found = self.plugins(kind, "--plugin-path", manifests)["heddle.cpu"]
            self.assertEqual(found["state"], "available", (kind, found))
            self.assertEqual(found["manifest"], str(self.root / "lib/heddle/plugins.d/heddle.cpu.toml"), kind)

    def test_the_systems_configuration_holds(self):
        self.their("heddle.toml", "[log]\nlevel = 'error'\n")
        for mode in (0o644, 0o600):
            self.system_file("[plugins]\ndisable = ['heddle.cpu']\n", mode)
            for kind in self.kinds:
                if mode == 0o600 and kind != "capabilities":
                    continue  # what it may not read itself is an error, below
                found = self.plugins(kind, HEDDLE_CONFIG=str(self.theirs / "heddle.toml"))["heddle.cpu"]
                self.assertEqual(found["state"], "disabled", kind)
        result = self.run_as("user", "plugins")
        self.assertEqual(result.returncode, 1)
        self.assertIn("/etc/heddle/heddle.toml: error[E106]", result.stderr)

    def test_a_configuration_that_others_can_write_is_refused(self):
        for text, name in (("", "heddle.toml"), ("imports = ['more.toml']\n", "more.toml")):
            self.system_file(text)
            (self.root / "etc" / name).write_text(text if name == "heddle.toml" else "")
            (self.root / "etc" / name).chmod(0o666)
            for kind in self.kinds:
                result = self.run_as(kind, "plugins")
                self.assertEqual(result.returncode, 1, kind)
                self.assertIn(f"/etc/heddle/{name} can be written by others (mode 0666)", result.stderr)

    def test_no_file_that_the_caller_names_is_read(self):
        secret = self.root / "secret"
        secret.write_text("hidden = = 1\n")
        os.chown(secret, SERVICE, SERVICE)
        secret.chmod(0o640)
        for kind in self.kinds:
            for arguments in (("plugins", "--config", secret), ("config", "check", secret), ("plugins", "--flagfile", secret),
                              ("plugins", f"--flagfile={secret}"), ("config", "effective", "--config", secret)):
                result = self.run_as(kind, *arguments)
                self.assertEqual(result.returncode, 2, (kind, arguments, result.stderr))
                self.assertIn("not accepted with raised privileges", result.stderr)
                self.assertNotIn("hidden", result.stderr + result.stdout)

    def test_a_users_own_configuration_is_never_looser_than_the_systems(self):
        self.system_file("[plugins.security]\nmode = 'strict'\n")
        own = self.their("own.toml", "[plugins.security]\nmode = 'normal'\n")
        for arguments, variables in ((("--config", own), {}), ((), {"HEDDLE_CONFIG": str(own)})):
            result = self.run_as("plain", "config", "effective", "--origin", *arguments, **variables)
            self.assertRegex(result.stdout, r'plugins\.security\.mode +"strict" +/etc/heddle/heddle\.toml', result.stderr)


if __name__ == "__main__":
    unittest.main()
