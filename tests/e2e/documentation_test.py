# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the pages say is there: links lead somewhere, docs/configuration.md shows files that pass the checks and names every key that is read."""
import json
import re
import subprocess

from heddle_command import HeddleTestCase, REPOSITORY

PAGES = [*sorted(REPOSITORY.glob("*.md")), *sorted((REPOSITORY / "docs").rglob("*.md"))]
PAGE = REPOSITORY / "docs" / "configuration.md"
# Keys of the readers that the page names with a pattern or in a sentence.
ELSEWHERE = {"uuid", "pci", "ordinal", "soname", "hint", "digests"}


def toml_blocks():
    return re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


class Configuration(HeddleTestCase):
    def test_the_configuration_has_no_error(self):
        (self.folder / "site.d").mkdir()
        file = self.folder / "heddle.toml"
        file.write_text(toml_blocks()[0])
        result = self.succeed("config", "check", file, "--format", "json")
        self.assertEqual(json.loads(result.stdout)["diagnostics"], [], str(result))

    def test_the_allocators_have_no_error(self):
        file = self.folder / "heddle.toml"
        devices = "".join(f'[device.gpu{i}]\ndriver = "heddle.cpu"\nselect = {{ ordinal = 0 }}\n' for i in range(3))
        allocators = next(block for block in toml_blocks() if "allocator.over]" in block)
        file.write_text(allocators + devices)
        result = self.succeed("config", "check", file, "--format", "json")
        self.assertEqual(json.loads(result.stdout)["diagnostics"], [], str(result))

    def test_the_manifest_has_no_error(self):
        (self.folder / "acme.weaver.toml").write_text(toml_blocks()[-1])
        plugins = json.loads(self.succeed("plugins", "--plugin-path", self.folder, "--format", "json").stdout)["plugins"]
        found = next(plugin for plugin in plugins if plugin["id"] == "acme.weaver")
        self.assertEqual(found["version"], "1.4.2")
        self.assertNotIn("manifest is wrong", found["reason"])

    def test_every_key_that_is_read_is_there(self):
        text = re.sub(r"^```toml\n.*?^```", "", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        named = set(re.findall(r"[a-z_0-9]+", " ".join(re.findall(r"`([^`\n]+)`", text))))
        missing = set()
        host = REPOSITORY / "core" / "host"
        for source in (*host.glob("config_*.cpp"), host / "manifest.cpp", host / "options.cpp"):
            code = source.read_text(encoding="utf-8")
            read = re.findall(r'\b(?:\w+\.)?(?:string|strings|integer|bytes|boolean|choice|table|tables|value|require)\("([a-z_0-9]+)"', code)
            missing |= {key for key in read if key not in named}
        self.assertEqual(sorted(missing - ELSEWHERE), [])

    def test_every_variable_that_is_read_is_there(self):
        text = PAGE.read_text(encoding="utf-8")
        code = "".join(path.read_text(encoding="utf-8") for room in ("core", "tools") for path in (REPOSITORY / room).rglob("*.cpp"))
        read = set(re.findall(r'(?:getenv|environment)\("([A-Z_]+)"\)', code))
        self.assertIn("HEDDLE_CONFIG", read)
        self.assertEqual(sorted(name for name in read if f"`{name}`" not in text), [])


class Pages(HeddleTestCase):
    def test_every_link_inside_the_tree_leads_somewhere(self):
        lost = []
        for page in PAGES:
            for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
                if not target.startswith("http") and not (page.parent / target.split("#")[0]).exists():
                    lost.append(f"{page.relative_to(REPOSITORY)}: {target}")
        self.assertEqual(lost, [])

    def test_scripts_say_what_they_take_and_otherwise_do_nothing(self):
        for name, usage in (("demo", "demo"), ("test", "test [--torch]")):
            script = REPOSITORY / "tools" / "dev" / name
            helped = subprocess.run([script, "--help"], capture_output=True, text=True, timeout=60)
            self.assertEqual((helped.returncode, helped.stdout.splitlines()[0]), (0, f"usage: tools/dev/{usage}"))
            refused = subprocess.run([script, "--hepl"], capture_output=True, text=True, timeout=60)
            self.assertEqual((refused.returncode, refused.stdout), (2, ""))
            self.assertIn("--hepl", refused.stderr)


if __name__ == "__main__":
    import unittest

    unittest.main()
