# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every numbered rule of docs/abi.md is enforced somewhere, by an error text that cites it, and has a test.

Who enforces a rule is found by its citation, `[HD-L-01]`, in a text of the sources. HELD is for rules that no text can cite, because what would break them cannot
be written: it says what holds them. TESTS names the tests of each rule; a test that was renamed or removed fails here.
"""
import os
import pathlib
import re
import unittest

SOURCE = pathlib.Path(os.environ.get("HEDDLE_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
ENFORCING = ("core", "plugins", "sdk/cpp", "sdk/template", "tools")

# rule: (file, text that is in it, why that holds the rule)
HELD = {
    "HD-Q-04": ("sdk/include/heddle/driver.h", "The interfaces of a driver",
                "no table that a driver gets has a function of the application's; heddle_host_t runs only what the plugin hands over"),
}

UNIT = "tests/unit/"
KIT = "tools/conformance/cases_"
LOADER = "tests/loader/loader_test.cpp"
PREFLIGHT = "tests/loader/loader_preflight_test.cpp"
PROBE = "tests/loader/loader_probe_test.cpp"
# rule: (file, a test in it). Of the kit: a case, proved by the mutants of tests/conformance.
TESTS = {
    "HD-E-01": [(LOADER, "RefusesALibraryWithoutEntry")],
    "HD-E-02": [(LOADER, "NamesBothRangesWhenNegotiationFails"), (PREFLIGHT, "RefusesAManifestRangeWithoutStartingAProbe"),
                (KIT + "plugin.cpp", "entry.pure"), (KIT + "plugin.cpp", "entry.refusal"), ("tests/compat/matrix_test.py", "test_the_library_says_so")],
    "HD-E-03": [(LOADER, "RefusesADriverWithoutARequiredInterface"), (LOADER, "RefusesATableThatLiesNowhere"), (KIT + "plugin.cpp", "plugin.table")],
    "HD-E-04": [(LOADER, "TakesATableOfAnOlderAndOfANewerSide"), (LOADER, "AnswersUnimplementedInHoles"), (KIT + "device.cpp", "structs.larger"),
                (KIT + "device.cpp", "structs.smaller"), (KIT + "device.cpp", "structs.outputs"), (KIT + "dispatch.cpp", "dispatch.unknown_flags"),
                ("tests/compat/matrix_test.py", "test_option_structs_with_an_unknown_end")],
    "HD-E-05": [("tests/abi/abi_test.py", "test_every_break_is_found"), (KIT + "plugin.cpp", "plugin.unknown_interface")],
    "HD-E-06": [("tests/loader/loader_discovery_test.cpp", "TwoHostsShareALibraryAndNothingElse"), (KIT + "plugin.cpp", "plugin.two_hosts")],
    "HD-E-07": [(UNIT + "validation_plugin_test.cpp", "SucceedsWithoutAResult"), (UNIT + "validation_plugin_test.cpp", "FailsAndLeavesAResult"),
                (UNIT + "validation_plugin_test.cpp", "GivesOneHandleTwice"), (KIT + "device.cpp", "device.ordinals"),
                (KIT + "library.cpp", "library.other_target")],
    "HD-S-01": [(UNIT + "status_test.cpp", "SurvivesMemoryThatRunsOut"), (KIT + "failure.cpp", "failure.memory_in_life")],
    "HD-S-02": [(UNIT + "core_runtime_device_test.cpp", "OldHandlesAnswerDeviceLostAndANewInstanceWorks"),
                (UNIT + "core_runtime_order_test.cpp", "StateStaysFailedWhenACallOnItFails"), (KIT + "failure.cpp", "failure.first_sticks")],
    "HD-Q-01": [(UNIT + "core_runtime_order_test.cpp", "WaitsForAResultThatAnEarlierCallStillFills"), (KIT + "timeline.cpp", "timeline.across_queues")],
    "HD-Q-02": [(UNIT + "core_runtime_globals_test.cpp", "BringsArgumentsOfAnotherDeviceOver"), (KIT + "transfer.cpp", "transfer.peer"),
                (UNIT + "core_runtime_peer_test.cpp", "WorkOnBothSidesIsInOrderWithTheCopy")],
    "HD-Q-03": [(UNIT + "core_runtime_call_test.cpp", "OutlivesItsParentsThroughATensor"),
                (UNIT + "core_runtime_async_test.cpp", "InstanceWaitsForCallsThatNobodyHolds")],
    "HD-Q-04": [(KIT + "timeline.cpp", "timeline.notify")],
    "HD-Q-05": [(UNIT + "core_runtime_async_test.cpp", "CancelDropsWhatIsNotEnqueued"),
                (UNIT + "core_runtime_deadline_test.cpp", "DropsTheSegmentsThatAreNotEnqueued")],
    "HD-Q-06": [(UNIT + "core_runtime_order_test.cpp", "FailsOnlyWhenItsWorkIsOver"), (KIT + "timeline.cpp", "timeline.signals_last")],
    "HD-Q-07": [(KIT + "transfer.cpp", "transfer.barrier"), (KIT + "dispatch.cpp", "dispatch.many_commands")],
    "HD-Q-08": [("tests/gpu/gpu_native_test.cpp", "SubmitWaitsWhereTheStreamCannotYet"), ("tests/gpu/gpu_native_test.cpp", "WorksBesideACapture")],
    "HD-Q-09": [(UNIT + "validation_host_test.cpp", "TimelinesThatAreSignalledWrongly"), (UNIT + "validation_plugin_test.cpp", "CountsBackwards"),
                (UNIT + "validation_plugin_test.cpp", "WaitsThatAreWrong"), (KIT + "timeline.cpp", "timeline.only_grows")],
    "HD-F-01": [(UNIT + "core_runtime_errors_test.cpp", "NamesTheInputWhenAShapeIsWrong")],
    "HD-F-02": [(UNIT + "core_runtime_donation_test.cpp", "ADonatedArgumentBecomesTheResult"),
                (UNIT + "core_runtime_donation_test.cpp", "ACallThatDoesNotBeginTakesNothing")],
    "HD-G-01": [(KIT + "recording.cpp", "recording.read_only"), (KIT + "recording.cpp", "recording.not_offered"),
                (UNIT + "core_runtime_late_test.cpp", "SubmitsListsThatCannotBeRecorded")],
    "HD-H-01": [(KIT + "device.cpp", "device.handles")],
    "HD-M-01": [(KIT + "allocator_order.cpp", "allocator.stream_order"), (UNIT + "allocator_every_test.cpp", "AFreedBlockIsNotReusedBeforeItsPointsForTheHost")],
    "HD-M-02": [(UNIT + "core_runtime_errors_test.cpp", "RefusesImpossibleSizesWithoutATry"), (UNIT + "core_interpreter_test.cpp", "GivesTheResultOrFails"),
                (KIT + "transfer.cpp", "transfer.bounds")],
    "HD-M-03": [(UNIT + "core_runtime_memory_test.cpp", "SaysWhoHoldsWhatWhenMemoryEnds"), (KIT + "allocator_usage.cpp", "allocator.exhaustion")],
    "HD-M-04": [(UNIT + "core_runtime_device_test.cpp", "AlignsWhatItPlacesAsTheDeviceWants"), (UNIT + "core_route_test.cpp", "PassesOverVariantsThatDoNotFitTheDevice"),
                (UNIT + "core_runtime_device_test.cpp", "PassesOverAKernelWhoseGridIsTooLarge")],
    "HD-M-05": [(UNIT + "allocator_stack_test.cpp", "APoolOverAPoolGivesItsChunksBack"), (KIT + "allocator.cpp", "allocator.gives_back")],
    "HD-M-06": [(UNIT + "validation_host_test.cpp", "UnmapsWithoutMaps"), (KIT + "buffer.cpp", "buffer.map_counts")],
    "HD-M-07": [(UNIT + "validation_allocator_test.cpp", "StatisticsThatAreNotTrue"), (KIT + "allocator_usage.cpp", "allocator.statistics")],
    "HD-O-01": [(KIT + "library.cpp", "library.other_shapes"), (KIT + "library.cpp", "library.unknown_attribute"), (KIT + "library.cpp", "library.attribute_kinds"), (KIT + "library.cpp", "library.unknown_operator")],
    "HD-O-02": [(KIT + "library.cpp", "library.properties"), (UNIT + "validation_library_test.cpp", "PreparesWhatWasNotQueried")],
    "HD-O-03": [(KIT + "library_run.cpp", "library.attributes"), (KIT + "library_run.cpp", "library.repeatable"), (KIT + "library_run.cpp", "library.shards"), (KIT + "library_run.cpp", "library.no_memory_in_enqueue"),
                (UNIT + "validation_library_test.cpp", "WritesBesideItsWorkspace"), (UNIT + "validation_library_test.cpp", "EnqueuesTheSameMemoryAtOnce")],
    "HD-O-04": [(KIT + "operation.cpp", "operation.failure"), (KIT + "operation.cpp", "operation.same_as_kernel")],
    "HD-T-03": [(UNIT + "validation_plugin_test.cpp", "NotifiesTwice"), (UNIT + "validation_plugin_test.cpp", "NeverNotifies"), (KIT + "timeline.cpp", "timeline.notify")],
    "HD-T-04": [(KIT + "param_io.cpp", "param_io.progress"), (KIT + "param_io.cpp", "param_io.cancelled_meanwhile"), (UNIT + "validation_param_io_test.cpp", "NeverTellsTheEnd"),
                (UNIT + "validation_param_io_test.cpp", "DoesNotHeedACancellation")],
    "HD-T-01": [(KIT + "timeline.cpp", "timeline.no_block"), (KIT + "lifetime.cpp", "lifetime.forked_child"),
                ("tests/loader/loader_discovery_test.cpp", "AnswersFailedPreconditionInAForkedChild")],
    "HD-T-02": [(KIT + "dispatch.cpp", "dispatch.floating_point"), (KIT + "lifetime.cpp", "lifetime.signals"), (UNIT + "cpu_driver_test.cpp", "KernelsSeeTheDefaultFloatStateAndCallersKeepTheirs")],
    "HD-L-01": [(UNIT + "cpu_driver_test.cpp", "ClosingWithLiveChildrenFailsAndListsThem"), (KIT + "lifetime.cpp", "lifetime.shutdown_with_a_device")],
    "HD-L-02": [(PROBE, "FindsWorkThatIsLeftForTheEndOfTheProcess"), (LOADER, "UnloadsWhatMayBeUnloaded"),
                (KIT + "lifetime.cpp", "lifetime.exit")],
    "HD-C-01": [(KIT + "dispatch.cpp", "dispatch.foreign_code"), (KIT + "dispatch.cpp", "dispatch.listed_entries"), ("tests/compat/matrix_test.py", "test_every_module_runs_on_every_host")],
    "HD-C-02": [(UNIT + "cpu_image_test.cpp", "RefusesWhatALoaderWouldHaveToRunOrFind"), (UNIT + "cpu_image_test.cpp", "HoldsWritableAndExecutableApart")],
    "HD-B-01": [(PREFLIGHT, "RefusesALibraryThatExportsMoreThanItsEntry"), (PROBE, "TurnsExceptionsIntoReasons"), (KIT + "plugin.cpp", "build.only_the_entry")],
    "HD-B-02": [(KIT + "plugin.cpp", "build.no_vendor_library")],
    "HD-B-03": [(LOADER, "NamesAnUnresolvedSymbol")],
    "HD-A-01": [("tests/abi/abi_test.py", "test_every_break_is_found"), ("tests/abi/abi_test.py", "test_additions_need_the_next_minor"),
                ("tests/abi/layout_test.cpp", "FieldsAreWhereAbi01HasThem"), ("tests/compat/matrix_test.py", "test_every_driver_works_in_every_host")],
}


def rules():
    return re.findall(r"^- \*\*(HD-[A-Z]-\d\d)\*\*", (SOURCE / "docs" / "abi.md").read_text(encoding="utf-8"), re.MULTILINE)


def citations():
    """{rule: files with a text that ends in it}."""
    found = {}
    for folder in ENFORCING:
        for path in (SOURCE / folder).rglob("*"):
            if path.suffix not in (".c", ".cpp", ".h", ".py"):
                continue
            for line in path.read_text(encoding="utf-8").splitlines():
                # The validation layer names the rule on its own.
                for rule in re.findall(r'"[^"]*\[(HD-[A-Z]-\d\d)\]', line) + re.findall(r'_broke\("(HD-[A-Z]-\d\d)"', line):
                    found.setdefault(rule, set()).add(path.relative_to(SOURCE).as_posix())
    return found


def printed():
    """Rules in the texts that tests expect: of GoogleTest, of unittest and of FileCheck."""
    found = set()
    for path in (SOURCE / "tests").rglob("*"):
        if (path.name.endswith(("_test.cpp", "_test.py")) and path.name != "rules_test.py") or path.suffix == ".test":
            text = path.read_text(encoding="utf-8")
            quoted = text if path.suffix == ".test" else "\n".join(re.findall(r'"[^"\n]*"', text))
            found.update(re.findall(r"HD-[A-Z]-\d\d", quoted))
    return found


def has_test(file, name):
    """A case of GoogleTest, of unittest or of the kit."""
    path = SOURCE / file
    if not path.is_file():
        return False
    text = path.read_text(encoding="utf-8")
    return re.search(rf"\bTEST(_F|_P)?\(\w+,\s*{re.escape(name)}\)|\bdef {re.escape(name)}\(|\{{\"{re.escape(name)}\",", text) is not None


class Rules(unittest.TestCase):
    def test_no_number_is_used_twice(self):
        numbers = rules()
        self.assertGreater(len(numbers), 30)
        self.assertEqual(sorted(set(numbers)), sorted(numbers))

    def test_every_rule_has_a_row_in_the_manual(self):
        manual = (SOURCE / "docs" / "configuration.md").read_text(encoding="utf-8")
        self.assertEqual([rule for rule in rules() if rule not in manual], [], "docs/configuration.md has no cause of these rules")

    def test_every_rule_is_printed_by_a_test(self):
        expected = printed()
        self.assertEqual([rule for rule in rules() if rule not in expected and rule not in HELD], [], "no test expects a text with these rules")
        self.assertNotIn("HD-Q-04", expected)

    def test_every_rule_is_cited_by_an_error_text_or_held_otherwise(self):
        cited = citations()
        self.assertEqual([rule for rule in rules() if rule not in cited and rule not in HELD], [], "no error text cites these rules of docs/abi.md")
        self.assertEqual([rule for rule in HELD if rule in cited or rule not in rules()], [], "these are cited, or are no rules; HELD need not have them")
        for rule, (file, text, _) in HELD.items():
            with self.subTest(rule):
                self.assertIn(text, (SOURCE / file).read_text(encoding="utf-8"), f"{file} no longer says what holds {rule}")

    def test_every_rule_has_a_test(self):
        self.assertEqual([rule for rule in rules() if not TESTS.get(rule)], [], "name a test of these rules of docs/abi.md in TESTS")
        self.assertEqual([rule for rule in TESTS if rule not in rules()], [], "these are no rules of docs/abi.md")
        missing = [f"{rule}: {file}: {name}" for rule, tests in TESTS.items() for file, name in tests if not has_test(file, name)]
        self.assertEqual(missing, [], "tests that are not there")

    def test_what_is_looked_for_can_be_missed(self):
        self.assertFalse(has_test(LOADER, "RefusesALibraryWithoutEntr"))
        self.assertFalse(has_test("tests/loader/no_such_test.cpp", "RefusesALibraryWithoutEntry"))
        self.assertNotIn("HD-Q-04", citations())


if __name__ == "__main__":
    unittest.main()
