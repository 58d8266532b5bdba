# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mutants of the files that a plugin is: the manifest of the C++ template of a driver, its kernels for the kit, and how its library is linked
(the modules in the build's tests/linked). Each breaks just what the cases that are named beside it look at; the other cases of FILTER pass. The table goes to
test-results/conformance_mutants_files.txt of the build."""
import os
import pathlib
import sys
import tempfile
import unittest

import kit

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import writable  # noqa: E402

TEMPLATE = kit.BUILD / "tests/template/driver/cpp"
LINKED = kit.BUILD / "tests/linked"
FILTER = ("manifest.valid", "build.only_the_entry", "build.no_vendor_library", "plugin.table", "device.describe", "dispatch.kernels")


def manifest(*replaced, more=""):
    return {"manifest": replaced, "more": more}


def kernels(*replaced):
    return {"kernels": replaced}


def linked(name, needs=()):
    """With the module of that name as its library; its manifest names the libraries in `needs`."""
    named = ", ".join(f'{{ soname = "{soname}", hint = "install it" }}' for soname in needs)
    return {"library": LINKED / f"{name}.so", "more": f"\n[requires]\nlibs = [{named}]\n" if needs else ""}


ABI = 'abi = ["0.1", "0.3"]'
SHOWN = ("build.only_the_entry", "manifest.valid")  # the host looks at it, too
NO_FILE = None  # in the place of what is replaced in it

# mutant: (the case that must catch it, or several, each of which must; what it says; what is changed)
MUTANTS = {
    "version_is_a_word": (("manifest.valid",), "'version' is \"banana\", which is not a semantic version", manifest(('"0.1.0"', '"banana"'))),
    "abi_of_a_later_host": (("manifest.valid",), "works with ABI 0.7 to 0.9", manifest((ABI, 'abi = ["0.7", "0.9"]'))),
    "abi_runs_back": (("manifest.valid",), "which is not a range", manifest((ABI, 'abi = ["0.2", "0.1"]'))),
    "unknown_key": (("manifest.valid",), "unknown key 'licence'", manifest(("[plugin]", '[plugin]\nlicence = "x"'))),
    "unknown_table": (("manifest.valid",), "unknown key 'extras'", manifest(more="\n[extras]\nx = 1\n")),
    "reserved_id": (("manifest.valid",), "id 'heddle.mine' is reserved", manifest(('"org.example.sample"', '"heddle.mine"'))),
    "other_architecture": (("manifest.valid",), "it is built for sparc", manifest(('arch = "x86_64"', 'arch = "sparc"'))),
    "unknown_isa": (("manifest.valid",), "isa 'x86-64-v9', which is not known", manifest(('isa = "x86-64"', 'isa = "x86-64-v9"'))),
    "unknown_kind": (("manifest.valid",), "kind 'drive' is not known", manifest(('["driver"]', '["drive"]'))),
    "other_digest": (("manifest.valid",), "has the SHA-256 digest", manifest(more=f'\n[integrity]\nsha256 = "{"0" * 64}"\n')),
    "absent_hardware": (("manifest.valid",), "no device of PCI vendor 0xfffe", manifest(more='\n[requires]\npci_vendor = ["0xfffe"]\n')),
    "absent_library": (("manifest.valid",), "it needs libacme_gone.so.1", linked("names_a_version", ["libacme_gone.so.1"])),
    "default_out_of_bounds": (("manifest.valid",), "option 'device_count' is 17; 1 to 16 was expected", manifest(("max = 16\ndefault = 1", "max = 16\ndefault = 17"))),
    "looks_in_the_current_folder": (("manifest.valid",), "[HD-B-03]", linked("looks_in_the_current_folder")),
    "other_id_in_the_manifest": (("plugin.table",), "its id is 'org.example.sample'", manifest(('"org.example.sample"', '"org.example.other"'))),
    "other_version_in_the_manifest": (("plugin.table",), "its manifest says '0.2.0' [HD-E-03]", manifest(('"0.1.0"', '"0.2.0"'))),
    "other_kind_in_the_manifest": (("plugin.table",), "its manifest says driver and allocator", manifest(('["driver"]', '["driver", "allocator"]'))),
    "other_families": (("device.describe",), "which `families` of its manifest does not name", manifest(('families = ["sample", "portable"]', 'families = ["loom"]'))),
    "shows_a_function": (SHOWN, "it exports 'heddle_test_shown_function'", linked("shows_a_function")),
    "shows_data": (SHOWN, "it exports 'heddle_test_shown_data'", linked("shows_data")),
    "shows_an_address": (SHOWN, "it exports 'heddle_test_shown_address'", linked("shows_an_address")),
    "shows_what_it_is_made_of": (SHOWN, "it exports '_Z", linked("shows_what_it_is_made_of")),
    "linked_with_a_vendors_library": (("build.no_vendor_library",), "it is linked with libOpenCL.so.1; open it with dlopen, in probe and again in create [HD-B-02]",
                                      linked("linked_with_a_vendors_library")),
    "names_the_vendors_library": (("build.no_vendor_library",), "it is linked with libOpenCL.so.1",
                                  linked("linked_with_a_vendors_library", ["libOpenCL.so.1"])),
    "linked_with_an_unnamed_library": (("build.no_vendor_library",), "libacme_loom.so.3, which is not a system library",
                                       linked("linked_with_an_unnamed_library")),
    "linked_through_another": (("build.no_vendor_library",), "needs libOpenCL.so.1", linked("linked_through_another", ["libacme_bridge.so.2"])),
    "no_kernels": (("dispatch.kernels",), "the kit has no kernels that the device accepts", {"kernels": NO_FILE}),
    "kernels_of_unknown_words": (("dispatch.kernels",), "executable_load", kernels(("addf", "addd"))),
    "kernels_without_one": (("dispatch.kernels",), "NOT_FOUND", kernels(("kernel chain 1 8", "kernel chains 1 8"))),
}

# What looks like one of the above and keeps all rules.
HARMLESS = {
    "nothing": {},
    "an_entry_with_a_version": linked("names_a_version"),
    "a_library_that_the_manifest_names": linked("linked_with_an_unnamed_library", ["libacme_loom.so.3"]),
}


def replaced_in(file, pairs):
    text = file.read_text(encoding="utf-8")
    for before, after in pairs:
        if before not in text:
            raise AssertionError(f"{file.name} has no {before!r}")
        text = text.replace(before, after)
    file.write_text(text, encoding="utf-8")


def findings(change):
    """(exit code, {case: its finding}) of the template with the change."""
    with tempfile.TemporaryDirectory(prefix="heddle-files-") as name:
        folder = pathlib.Path(name)
        for file in [*TEMPLATE.glob("*.so"), *TEMPLATE.glob("*.toml")]:
            writable.copy(file, folder)
        writable.copytree(TEMPLATE / "conformance", folder / "conformance")
        if "library" in change:
            writable.copy(change["library"], folder / "libsample_driver.so")
            for file in LINKED.glob("lib*.so.*"):  # its RUNPATH holds $ORIGIN
                writable.copy(file, folder)
        plugin = folder / "org.example.sample.toml"
        replaced_in(plugin, change.get("manifest", ()))
        with plugin.open("a", encoding="utf-8") as file:
            file.write(change.get("more", ""))
        if change.get("kernels", ()) is NO_FILE:
            (folder / "conformance/kernels.toml").unlink()
        else:
            replaced_in(folder / "conformance/kernels.toml", change.get("kernels", ()))
        code, cases = kit.run(plugin, "--filter", ",".join(FILTER))
    for case in cases.values():
        case["texts"] = [text.replace(f"{name}/", "") for text in case["texts"]]
    return code, cases


def failed(cases):
    return {name: " ".join(case["texts"]) for name, case in cases.items() if case["outcome"] == "failed"}


class Files(unittest.TestCase):
    def test_every_mutant_is_caught_by_the_cases_that_are_about_it_alone(self):
        lines = []
        for mutant, (expected, said, change) in MUTANTS.items():
            with self.subTest(mutant):
                if "PCI" in said and not os.path.exists("/sys/bus/pci/devices"):
                    self.skipTest("SKIP: this machine shows no PCI bus, and then nobody can say what is not there")
                code, cases = findings(change)
                texts = failed(cases)
                lines += [(mutant, "", case, cases[case]["outcome"], " ".join(cases[case]["texts"])) for case in expected]
                self.assertEqual((code, set(texts)), (1, set(expected)), texts)
                self.assertIn(said, texts[expected[0]])
        kit.write_table("mutants_files", lines)

    def test_what_only_looks_like_one_passes(self):
        for name, change in HARMLESS.items():
            with self.subTest(name):
                code, cases = findings(change)
                self.assertEqual((code, failed(cases)), (0, {}))
                self.assertEqual(set(cases), set(FILTER))

    def test_every_linked_module_is_in_a_table(self):
        used = {change["library"] for change in [*(change for _, _, change in MUTANTS.values()), *HARMLESS.values()] if "library" in change}
        built = {path for path in LINKED.glob("*.so") if not path.name.startswith("lib")}
        self.assertEqual(built, used)


if __name__ == "__main__":
    unittest.main()
