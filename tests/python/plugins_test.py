# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plugins of other wheels: the entry-point group heddle.plugins, and what strict mode does with their directories."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import heddle
import models


class OtherWheel(unittest.TestCase):
    """An installed distribution with a plugin of the package itself."""

    @classmethod
    def setUpClass(cls):
        cls.site = models.FOLDER / "site"
        cls.plugins = cls.site / "acme_pool" / "plugins"
        cls.plugins.mkdir(parents=True)
        own = next(plugin for plugin in heddle.plugins() if plugin["id"] == "heddle.pool")
        for path in (own["manifest"], own["library"]):
            shutil.copy(path, cls.plugins)
        info = cls.site / "acme_pool-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-pool\nVersion: 1.0\n")
        # The package is not imported: it would fail.
        (cls.site / "acme_pool" / "__init__.py").write_text("raise RuntimeError('imported')\n")
        (info / "entry_points.txt").write_text("[heddle.plugins]\npool = acme_pool.plugins\nlost = acme_pool.removed\n")

    def ask(self, text, **options):
        done = subprocess.run([sys.executable, "-c", f"import sys; sys.path.insert(0, {str(self.site)!r})\nimport heddle\n" + text], capture_output=True, text=True,
                              timeout=120, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip(), done.stderr

    def test_its_plugin_is_found_first_and_a_lost_one_is_logged(self):
        found, logged = self.ask("print([plugin['manifest'] for plugin in heddle.plugins() if plugin['id'] == 'heddle.pool'][0])")
        self.assertEqual(pathlib.Path(found).parent, self.plugins)
        self.assertIn("'lost = acme_pool.removed'", logged)
        self.assertIn("install it again", logged)

    def test_modules_use_it(self):
        self.ask(f"import numpy\nx = numpy.ones(4, 'f4')\nassert heddle.open({str(models.add(4))!r})(x, x).tolist() == [2.0] * 4")

    def test_the_command_of_the_package_finds_it_before_those_of_the_environment(self):
        package = models.FOLDER / "package"
        (package / "bin").mkdir(parents=True)
        built = pathlib.Path(os.environ.get("HEDDLE_COMPILER", pathlib.Path(heddle.__file__).parent / "bin" / "heddle-compile"))  # or of the wheel
        (package / "bin" / "heddle").symlink_to(built.with_name("heddle"))
        text = (f"from heddle import _command\n_command.__file__ = {str(package / '_command.py')!r}\n"
                "sys.argv = ['heddle', 'plugins', '--format', 'json']\n_command.main()")
        for others in (None, self.site / "acme_pool"):
            environment = {name: value for name, value in os.environ.items() if name != "HEDDLE_PLUGIN_PATH"}
            if others:
                shutil.copy(self.plugins / "heddle.pool.toml", others)
                environment["HEDDLE_PLUGIN_PATH"] = str(others)
            printed, _ = self.ask(text, env=environment)
            listed = json.loads(printed)["plugins"]
            self.assertEqual([pathlib.Path(plugin["manifest"]).parent for plugin in listed if plugin["id"] == "heddle.pool"][0], self.plugins)

    def test_a_runtime_without_environment_ignores_it(self):
        found, _ = self.ask("print([plugin['manifest'] for plugin in heddle.Runtime(environment=False).plugins() if plugin['id'] == 'heddle.pool'][0])")
        self.assertNotEqual(pathlib.Path(found).parent, self.plugins)

    def test_strict_mode_refuses_a_directory_that_others_may_write(self):
        text = ("runtime = heddle.Runtime(config_text='[plugins.security]\\nmode = \"strict\"\\n')\n"
                "for plugin in runtime.plugins():\n  print(plugin['id'], plugin['state'], plugin['manifest'], plugin['reason'])")
        mode = self.site.stat().st_mode & 0o777
        self.site.chmod(0o777)
        try:
            printed, _ = self.ask(text)
        finally:
            self.site.chmod(mode)
        # Where the package's own plugin is trusted, that one is used, and the other is not listed.
        for line in printed.splitlines():
            if str(self.plugins) in line:
                self.assertRegex(line, "heddle.pool untrusted .*write")
        self.assertIn("heddle.pool ", printed)


if __name__ == "__main__":
    unittest.main()
