# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Debian packages that cpack makes: one for each component, with the dependencies that docs/installation.md promises. That they install
and work is tried by tests/bare/packages, which needs root and a package mirror."""
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from heddle_command import REPOSITORY, TIMEOUT_S
from installation_test import BUILD, SANITIZE, listed_files, plugins

MEASURED = REPOSITORY / "docs" / "measured" / "packages.md"
CACHE = (BUILD / "CMakeCache.txt").read_text()


def run(*command):
    process = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=TIMEOUT_S)
    if process.returncode:
        raise AssertionError(f"{command}\n{process.stdout[-2000:]}{process.stderr[-4000:]}")
    return process.stdout


def cached(name):
    return re.search(rf"^{name}:\w+=(.*)$", CACHE, re.MULTILINE).group(1)


class Packages(unittest.TestCase):
    missing = None

    @classmethod
    def setUpClass(cls):
        if SANITIZE or cached("CMAKE_BUILD_TYPE") != "Release":
            cls.missing = "SKIP: packages are those of a release build"
        elif not shutil.which("dpkg-shlibdeps"):
            cls.missing = "SKIP: there is no dpkg-shlibdeps; install dpkg-dev"
        if cls.missing:
            return
        folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="heddle-packages-"))
        run(cached("CMAKE_CPACK_COMMAND"), "--config", BUILD / "CPackConfig.cmake", "-B", folder)
        cls.fields, cls.files, cls.control = {}, {}, {}
        for deb in sorted(pathlib.Path(folder).glob("*.deb")):
            fields = dict(re.findall(r"^(\S+): (.*)$", run("dpkg-deb", "-f", deb), re.MULTILINE))
            name = fields["Package"]
            assert deb.name == f"{name}_{fields['Version']}_{fields['Architecture']}.deb", deb
            cls.fields[name] = fields
            # mode, owner, name without the dot
            cls.files[name] = re.findall(r"^([-l]\S+) (\S+) +\d+ \S+ \S+ \.(\S+)", run("dpkg-deb", "-c", deb), re.MULTILINE)
            control = pathlib.Path(folder, "control", name)
            control.parent.mkdir(exist_ok=True)
            run("dpkg-deb", "-e", deb, control)
            cls.control[name] = {path.name: path.read_text() for path in control.iterdir()}

    def setUp(self):
        if self.missing:
            self.skipTest(self.missing)

    def depends(self, package):
        return [one.strip() for one in self.fields[package].get("Depends", "").split(",")]

    def test_each_component_is_a_package_with_its_files(self):
        listed = listed_files()
        self.assertEqual(sorted(self.files), sorted({package for package, _ in listed.values()}))
        for package, found in self.files.items():
            patterns = [pattern if pattern.startswith("/") else "/usr/" + pattern
                        for own, all_of_it in listed.values() if own == package for pattern in all_of_it]
            names = [name for _, _, name in found]
            self.assertGreater(len(self.fields[package]["Description"]), 10, package)
            self.assertEqual([name for name in names if not any(re.fullmatch(pattern, name) for pattern in patterns)], [], package)
            self.assertEqual([pattern for pattern in patterns if not any(re.fullmatch(pattern, name) for name in names)], [], package)
            self.assertEqual([one for one in found if one[1] != "root/root" or (one[0][0] == "-" and one[0][7:] not in ("r--", "r-x"))], [])

    def test_each_is_measured(self):
        rows = re.findall(r"^\| `(heddle-[\w-]+)` \| [\d,]+ \| [\d,]+ \| (.*) \|$", MEASURED.read_text(encoding="utf-8"), re.MULTILINE)
        self.assertEqual([package for package, _ in rows], sorted(self.fields), f"the table of {MEASURED}; tests/bare/packages gives its rows")
        for package, depends in rows:
            ours = sorted({one.strip() for one in depends.split(",") if one.strip().startswith("heddle")})
            self.assertEqual(ours, sorted({one for one in self.depends(package) if one.startswith("heddle")}), package)

    def test_only_the_compiler_depends_on_llvm(self):
        needing = {package for package in self.fields if any(re.match(r"lib(llvm|mlir|lld|clang)", one) for one in self.depends(package))}
        self.assertEqual(needing, {"heddle-compiler", "heddle-tools"})
        for package in needing:
            self.assertIn("libllvm19", self.depends(package))

    def test_they_depend_on_each_other_as_documented(self):
        version = self.fields["heddle-runtime"]["Version"]
        self.assertRegex(version, r"^\d+\.\d+\.\d+-\d+$")
        self.assertEqual({fields["Version"] for fields in self.fields.values()}, {version})
        ours = {package: [one for one in self.depends(package) if one.startswith("heddle")] for package in self.fields}
        expected = {package: [] for package in ("heddle-page", "heddle-params", "heddle-runtime", "heddle-tools")}
        expected |= {package: [f"heddle-runtime (= {version})"] for package in ("heddle-compiler", "heddle-dev", "heddle-profile", "heddle-validation")}
        expected |= {f"heddle-{name.replace('_', '-')}": [f"heddle-runtime (>= {'.'.join(version.split('.')[:2])})"] for name in plugins()}
        self.assertEqual({package: ours[package] for package in expected}, expected)
        self.assertEqual(self.fields["heddle-runtime"]["Recommends"], "heddle-cpu, heddle-pool")

    def test_what_links_libraries_depends_on_their_packages(self):
        for package, found in self.files.items():
            if any("/bin/" in name or ".so." in name or "plugins.d/lib" in name for mode, _, name in found if mode[0] == "-"):
                self.assertTrue(any(one.startswith("libc6 (>= ") for one in self.depends(package)), package)

    def test_the_runtime_says_what_the_system_must_know(self):
        control = self.control["heddle-runtime"]
        self.assertEqual(control["conffiles"], "/etc/heddle/heddle.toml\n")
        # By CMake's version, one or the other.
        self.assertIn("ldconfig", control.get("postinst", "") + control.get("triggers", ""))
        self.assertRegex(control["shlibs"], r"^libheddle \d+ heddle-runtime \(>= \S+\)\n$")
        for package, files in self.control.items():
            if package != "heddle-runtime":
                self.assertNotIn("conffiles", files, package)


if __name__ == "__main__":
    unittest.main()
