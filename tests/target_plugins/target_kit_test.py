# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""heddle-conformance for target plugins: the template's passes, and each mutant fails in the case that its fault is for."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from heddle_command import TIMEOUT_S, environment, heddle_path
from target_plugins_test import DRIVER, MANIFEST, MUTANT, SANITIZE, TARGET

# The template's driver, which also runs the code of the faults that begin with "fused".
FUSED_DRIVER = DRIVER.parents[2] / "odd_driver" / "test.odd_driver.toml" if DRIVER else None
NEEDS_PRODUCTS = {"target.fused_products": "product", "target.fused_convolutions": "convolution"}
# Faults by the case that finds them.
FOUND_BY = {
    "target.answers": (
        "open_crash open_exit open_hang open_status open_throw claim_crash claim_abort claim_exit claim_hang claim_throw claim_memory claim_status "
        "claim_no_array claim_no_nodes claim_stride claim_size claim_no_name claim_odd_name claim_odd_refusal claim_unknown_node claim_node_twice "
        "claim_nothing claim_not_convex claim_claimed_twice emit_crash emit_exit emit_hang emit_throw emit_memory emit_status emit_too_large emit_empty "
        "emit_foreign_format emit_own_format_of_heddle emit_portable emit_no_version emit_no_target emit_no_entry emit_other_name emit_empty_name emit_entry_twice "
        "emit_bindings emit_constants emit_no_threads emit_too_many_threads emit_too_much_memory emit_too_much_workspace emit_no_guards "
        "emit_unguarded_first emit_no_expressions emit_other_expression emit_later_operand emit_unknown_symbol emit_unknown_kind emit_no_workgroups"
    ).split(),
    "target.same": ["claim_varies", "emit_varies"],
    "target.inspect": ["inspect_crash", "inspect_hang", "inspect_exit", "inspect_status", "emit_missing_entry", "emit_lying_record", "emit_damaged_code"],
    "target.numbers": ["emit_wrong_numbers", "emit_loses_device", "emit_writes_input", "emit_writes_less", "emit_endless"],
    "target.fused_products": ["fused_without_bias", "fused_without_activation"],
    "target.fused_convolutions": ["fused_without_bias", "fused_without_activation", "fused_without_padding", "fused_without_strides"],
    "target.damaged_code": ["damaged_crash"],
    "target.wrong_references": ["numbers_crash"],
    "target.newer": ["newer_ignored", "answer_too_long"],
    "target.missing_arrays": ["missing_arrays_crash"],
    "target.inspect_damaged": ["inspect_damaged_crash"],
    "target.facts": ["facts_crash"],
    "target.large_graph": ["large_graph_crash"],
    "target.leaves_nothing": ["claim_leaks"],
    "target.independent": ["claims_shared", "close_clears"],
}


@unittest.skipUnless(TARGET and (TARGET / "libsample_target.so").exists(), "SKIP: the template's target is not built")
class TargetKit(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def kit(self, manifest, *arguments):
        """The results by case, and the exit code."""
        process = subprocess.run([str(heddle_path().parent / "heddle-conformance"), "--plugin", str(manifest), "--json", *arguments],
                                 text=True, capture_output=True, timeout=TIMEOUT_S, env=environment() | {"ODD_DRIVER": "runs_portable_as_sample"})
        self.assertIn(process.returncode, (0, 1), process.stdout[-4000:] + process.stderr[-4000:])
        return {each["name"]: each for each in json.loads(process.stdout)["cases"]}, process.returncode

    def mutant(self, fault):
        path = self.folder / f"{fault}.toml"
        path.write_text(MANIFEST.format(id="test.mutant_target", library=MUTANT, family="sample", parts="true", elements=262144, fault=fault))
        return path

    def test_the_template_passes(self):
        cases, code = self.kit(TARGET / "org.example.sample_target.toml", "--driver", DRIVER / "org.example.sample.toml")
        failed = {name: each["texts"] for name, each in cases.items() if each["outcome"] == "failed"}
        self.assertEqual(failed, {})
        self.assertEqual(code, 0)
        for name, each in cases.items():
            if name.startswith("target."):
                self.assertEqual(each["outcome"], "absent" if name in NEEDS_PRODUCTS else "passed", (name, each["texts"]))
        for name, what in NEEDS_PRODUCTS.items():  # it takes the activation alone, or nothing of these graphs
            self.assertRegex(cases[name]["texts"][0], f"none of its code has a {what}|it gave no code for the kit's graphs")
        self.assertGreaterEqual(len(cases), 25)

    def test_without_a_driver(self):
        names = ["target.numbers", *NEEDS_PRODUCTS]
        cases, code = self.kit(TARGET / "org.example.sample_target.toml", "--filter", ",".join(names))
        self.assertEqual(code, 0)
        for name in names:
            self.assertEqual(cases[name]["outcome"], "absent")
            self.assertIn("--driver", cases[name]["texts"][0])

    def test_guards_on_all_entries_are_no_fault(self):
        cases, code = self.kit(self.mutant("emit_guarded"), "--filter", "target.answers,target.numbers", "--driver", DRIVER / "org.example.sample.toml")
        self.assertEqual(code, 0, cases)

    def test_fused_code_without_a_fault_passes(self):
        cases, code = self.kit(self.mutant("fused"), "--filter", ",".join(["target.answers", *NEEDS_PRODUCTS]), "--driver", FUSED_DRIVER)
        self.assertEqual({name: each["outcome"] for name, each in cases.items()}, dict.fromkeys(["target.answers", *NEEDS_PRODUCTS], "passed"), cases)
        self.assertEqual(code, 0)

    def test_every_behavior_has_a_mutant(self):
        listed = subprocess.run([str(heddle_path().parent / "heddle-conformance"), "--list"], text=True, capture_output=True, check=True, env=environment())
        cases = {line.split()[0] for line in listed.stdout.splitlines() if line.startswith("target.")}
        self.assertEqual(cases, {*FOUND_BY, "target.manifest", "target.takes"})  # which have tests of their own

    def test_a_target_that_takes_nothing(self):
        cases, code = self.kit(self.mutant("takes_nothing"), "--filter", "target.takes")
        self.assertEqual((cases["target.takes"]["outcome"], code), ("absent", 0))

    def test_mutants_fail(self):
        for case, faults in FOUND_BY.items():
            for fault in faults:
                if SANITIZE and (fault.endswith("_memory") or fault == "claim_leaks"):
                    continue
                with self.subTest(fault):
                    limit = "3" if fault.endswith(("_hang", "_endless")) else "60"
                    driver = FUSED_DRIVER if fault.startswith("fused") else DRIVER / "org.example.sample.toml"
                    cases, code = self.kit(self.mutant(fault), "--filter", case, "--time-limit", limit, "--driver", driver)
                    self.assertEqual((cases[case]["outcome"], code), ("failed", 1), (fault, cases[case]["texts"]))

    def test_manifests_with_mistakes(self):
        right = MANIFEST.format(id="test.mutant_target", library=MUTANT, family="sample", parts="true", elements=262144, fault="")
        for old, new, said in (('families = ["sample"]', "", "'families'"), ('["sample"]', '["Sample"]', "no name of a target"),
                               ("workgroup_size = 1024", "workgroup_size = -1", "no integer of 0 or more"), ("workgroup_size", "work_size", "unknown key"),
                               ("parts = true", "parts = [1]", "fact 'parts'")):
            path = self.folder / "wrong.toml"
            self.assertIn(old, right)
            path.write_text(right.replace(old, new))
            cases, code = self.kit(path, "--filter", "target.manifest")
            self.assertEqual(code, 1)
            self.assertIn(said, cases["target.manifest"]["texts"][0])


if __name__ == "__main__":
    unittest.main()
