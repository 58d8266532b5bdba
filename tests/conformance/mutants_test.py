# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Proof of the conformance kit: each mutant of the template driver breaks one rule and is caught by the case that is about it, and odd drivers that
keep all rules pass. Mutants of a plugin's files are in files_test. The tables go to test-results/conformance_mutants*.txt of the build."""
import os
import re
import subprocess
import tempfile
import unittest

import files_test
import foreign_test
import kit

MUTATIONS = sorted(path.name for path in (kit.SOURCE / "tests/conformance").glob("mutations_*.cpp"))
DRIVER = kit.BUILD / "tests" / "odd_driver" / "test.odd_driver.toml"

# mutant: the case that must catch it, or several with commas between them, each of which must; or (these, further arguments of the kit)
MUTANTS = {
    "entry_opens": "entry.pure",
    "entry_allocates": "entry.pure",
    "entry_chooses_0": "entry.chosen_minor",
    "entry_gives_no_reason": "entry.refusal",
    "entry_accepts_all": "entry.refusal",
    "entry_overwrites": "entry.sizes",
    "other_id": "plugin.table",
    "probe_miscounts": "plugin.probe",
    "probe_leaks_descriptors": "plugin.probe_leaves_nothing",
    "answers_any_interface": "plugin.unknown_interface",
    "one_instance": "plugin.two_hosts",
    "leaks_host_memory": "plugin.two_hosts",
    "no_submit": "plugin.required_functions",
    "alignment_of_3": "device.describe",
    "any_ordinal": "device.ordinals",
    "no_link": "device.link",
    "one_device": "device.open_twice",
    "no_first_word": "device.handles",
    "frozen_statistics": "device.statistics",
    "any_priority": "device.priorities",
    "ignores_tails": "structs.larger",
    "refuses_small_structs": "structs.smaller",
    "overwrites_outputs": "structs.outputs",
    "refuses_empty_buffers": "buffer.zero_size",
    "ignores_alignment": "buffer.alignment",
    "rounds_alignment_up": "buffer.bad_params",
    "hides_kinds": "buffer.kinds",
    "wrong_code_over_limit": "buffer.over_limit",
    "maps_beyond_the_end": "buffer.subrange_bounds",
    "flushes_beyond_the_end": "buffer.subrange_bounds",
    "maps_with_any_flags": "buffer.map_flags",
    "hidden_memory+maps_hidden_memory": "buffer.unmappable",
    "maps_copies": "buffer.map_visibility",
    "first_unmap_ends_all": "buffer.map_counts",
    "buffers_share_memory": "buffer.disjoint",
    "never_releases_imports": "buffer.import",
    "releases_imports_at_once": "buffer.import",
    "keeps_failed_imports": "buffer.import_failure",
    "imports_views_as_copies": "buffer.import_views",
    "imports_whole_pages": "buffer.dlpack",
    "forgets_after_a_free": "buffer.reuse",
    "never_has_memory_back": ("buffer.exhaustion", "--option", "memory=64MiB"),
    "loses_the_last_byte": "transfer.sizes_and_offsets",
    "offsets_of_32_bits": "transfer.beyond_4_gib",
    "lengths_of_32_bits": ("transfer.over_4_gib_at_once", "--large"),
    "fills_without_tail": "transfer.fill",
    "fills_aligned": "transfer.fill_at_any_offset",
    "fills_any_pattern": "transfer.fill_pattern",
    "copies_from_the_start": "transfer.copy",
    "swallows_overlaps": "transfer.overlap",
    "swaps_strides": "transfer.copy_2d",
    "clamps_uploads": "transfer.bounds",
    "clamps_fills": "transfer.bounds",
    "uploads_nothing_from_null": "transfer.null",
    "runs_half_a_list": "transfer.all_or_nothing",
    "skips_unknown_commands": "transfer.unknown_command",
    "ignores_barriers": "transfer.barrier",
    "reads_updates_late": "transfer.update_captured",
    "captures_no_uploads": "transfer.upload_captured",
    "reads_pinned_memory_as_zeroes": "transfer.pinned",
    "peer_copies_nothing": "transfer.peer",
    "claims_peer_copies": "transfer.peer",
    "peer_copies_at_once": "transfer.peer_order",
    "crashes": "transfer.sizes_and_offsets",
    "hangs": ("transfer.sizes_and_offsets", "--time-limit", "3"),
    "exits": "transfer.sizes_and_offsets",
    "throws": "transfer.sizes_and_offsets",
    "clobbers_errno": "transfer.sizes_and_offsets",
    "clobbers_the_signal_mask": "device.handles",
    "clobbers_floating_point": "dispatch.floating_point",
    "leaks_statuses": "dispatch.foreign_code",
    "reads_a_byte_less": "param_io.whole_file",
    "direct_reads_begin_on_blocks": "param_io.methods",
    "takes_any_method": "param_io.methods",
    "reads_into_one_buffer": "param_io.scattered",
    "reads_whole_sectors": "param_io.unaligned",
    "short_reads_are_fine": "param_io.short_read",
    "opens_by_name": "param_io.replaced",
    "maps_files": "param_io.truncated",
    "writes_one_further": "param_io.write",
    "writes_what_was_opened_for_reading": "param_io.access",
    "moves_the_callers_offset": "param_io.descriptor",
    "progress_runs_back": "param_io.progress",
    "cannot_be_cancelled": "param_io.cancelled_before",
    "looks_for_cancellation_once": "param_io.cancelled_meanwhile",
    "file_offsets_of_32_bits": "param_io.far_offset",
    "clamps_extents": "param_io.bounds",
    "extents_of_32_bits": ("param_io.over_4_gib", "--large"),
    "maps_from_the_start": "param_io.mapped",
    "maps_files_beyond_their_end": "param_io.mapped",
    "maps_files_anywhere": "param_io.mapped",
    "maps_files_shared": "param_io.mapped",
    "reads_whole_files_into_memory": "param_io.bounded_staging",
    "decodes_a_block_less": "blocks.values",
    "decodes_the_first_item": "blocks.values",
    "cuts_instead_of_rounding": "blocks.values",
    "decodes_before_its_waits": "blocks.order",
    "signals_before_it_decodes": "blocks.order",
    "reads_items_late": "blocks.order",
    "decodes_any_length": "blocks.refused",
    "decodes_up_to_a_bad_item": "blocks.refused",
    "constants_are_zero": "dispatch.bindings_and_constants",
    "one_workgroup_less": "dispatch.every_workgroup",
    "refuses_no_workgroups": "dispatch.zero_workgroups",
    "grids_of_16_bits": "dispatch.largest_grid",
    "clamps_grids": "dispatch.grid_overflow",
    "trusts_counts": "dispatch.counts",
    "ignores_command_flags": "dispatch.unknown_flags",
    "ignores_entry_flags": "dispatch.unknown_flags",
    "clamps_bindings": "dispatch.binding_bounds",
    "reads_constants_late": "dispatch.arguments_copied",
    "cuts_long_lists": "dispatch.many_commands",
    "runs_waiting_work_first": "dispatch.submissions_chain",
    "finds_any_kernel": "dispatch.unknown_kernel",
    "ranks_everything": "dispatch.foreign_code",
    "loads_no_code": "dispatch.kernels",
    "corrects_counts+trusts_counts": "dispatch.entry_counts",
    "loads_anything": "dispatch.broken_code",
    "ignores_strides": "dispatch.larger_entries",
    "entries_by_position": "dispatch.listed_entries",
    "keeps_the_callers_code": "dispatch.code_may_go",
    "refuses_empty_lists": "dispatch.empty_list",
    "last_block_of_depth": "portable.products",
    "first_block_of_depth": "portable.products",
    "first_block_of_rows": "portable.products",
    "first_block_of_columns": "portable.products,portable.convolutions",
    "ignores_padding": "portable.convolutions",
    "ignores_window_strides": "portable.convolutions",
    "drops_bias": "portable.tails",
    "drops_activation": "portable.tails",
    "replays_the_first_bindings": "recording.new_bindings",
    "records_late": "recording.captures",
    "replays_once": "recording.dispatches",
    "read_only_is_static": "recording.read_only",
    "replays_unchecked": "recording.checked",
    "records_secretly": "recording.not_offered",
    "starts_at_0": "timeline.initial_value",
    "queries_one_less": "timeline.host_signal",
    "signals_anything": "timeline.only_grows",
    "ignores_bad_points": "timeline.bad_points",
    "any_is_all": "timeline.any_all",
    "timeouts_poison": "timeline.timeout",
    "gives_up_early": "timeline.wakes",
    "forgets_waits_on_other_queues": "timeline.across_queues",
    "signals_first": "timeline.signals_last",
    "downloads_late": "timeline.download_over",
    "submit_blocks": "timeline.no_block",
    "waits_for_few": "timeline.many_points",
    "keeps_timelines": "timeline.destroyed_at_once",
    "notifies_twice": "timeline.notify",
    "exports_anything": "timeline.handle_kinds",
    "the_last_failure_wins": "failure.first_sticks",
    "failures_take_back": "failure.reached_stays",
    "any_sees_failures_first": "failure.any",
    "failures_do_not_wake": ("failure.wakes", "--time-limit", "3"),
    "failures_stay_behind": "failure.travels",
    "transfers_do_not_fail": "failure.transfers",
    "kernels_fail_without_a_region": "failure.kernel",
    "lost_devices_are_unavailable": "failure.device_lost",
    "says_that_it_ends": "failure.device_lost",
    "create_trusts_memory": "failure.memory_in_create",
    "allocate_leaks_when_it_fails": "failure.memory_in_life",
    "load_leaks_when_it_fails": "failure.memory_in_load",
    "shuts_down_with_devices": "lifetime.shutdown_with_a_device",
    "closes_with_children": "lifetime.close_with_children",
    "forgets_the_queues_work": "lifetime.work_pending",
    "leaks_threads": "lifetime.instances",
    "leaks_in_open": "lifetime.devices",
    "leaks_mappings": "lifetime.devices",
    "leaks_files": "lifetime.objects",
    "dies_at_exit": "lifetime.exit",
    "forked_queues": "lifetime.forked_child",
    "threads_take_signals": "lifetime.signals",
    "no_null_releases": "lifetime.null",
    "allocates_alone": "concurrency.creating",
    "opens_alone": "concurrency.devices,concurrency.instances",
    "drops_work_of_later_queues": "concurrency.many_queues",
    "submits_alone": "concurrency.submitting",
    "waits_alone": "concurrency.waiting",
    "wants_to_be_alone": ("concurrency.beside_another", "--beside", str(kit.BUILD / "lib/heddle/plugins.d/libheddle_cpu.so")),
}

# The same for the template allocator.
ALLOCATOR = DRIVER.parent / "test.odd_allocator.toml"
ALLOCATOR_MUTANTS = {
    "blocks_overlap": "allocator.disjoint",
    "large_sizes_wrap": "allocator.sizes",
    "buffers_of_any_alignment": "allocator.alignment",
    "keeps_buffers": "allocator.gives_back",
    "destroys_with_blocks": "allocator.destroy_with_blocks",
    "shuts_down_with_allocators": "allocator.shutdown_with_one",
    "needs_no_provider": "allocator.no_provider",
    "never_waits": "allocator.waits",
    "waits_for_the_first_point": "allocator.waits",
    "counts_nothing": "allocator.statistics",
    "forgets_peaks": "allocator.statistics",
    "never_trims": "allocator.trim",
    "never_tries_again": "allocator.exhaustion",
    "has_no_limit": "allocator.limit",
    "doubles_sizes": "allocator.fragmentation",
    "forgets_owners": "allocator.holders",
    "crashes_when_the_provider_fails": "allocator.provider_fails",
    "ignores_tails": "allocator.structs",
    "gives_points_without_room": "allocator.disjoint",
    "trusts_host_memory": "allocator.host_memory",
    "one_thread_only": "allocator.threads",
    "destroys_null": "allocator.null",
    "gives_out_what_it_refuses": "allocator.sizes",
}

# Stream order alone, of heddle.pool, which offers it.
STREAMS = DRIVER.parent / "test.odd_streams.toml"
STREAM_MUTANTS = {
    "any_stream": "allocator.stream_order",
    "first_point_alone": "allocator.stream_order",
    "no_points": "allocator.stream_order",
    "one_point": "allocator.stream_order",
    "any_place": "allocator.earlier",
}

LIBRARY = kit.BUILD / "tests" / "odd_library" / "test.odd_library.toml"
LIBRARY_MUTANTS = {
    "takes_any_operator": "library.unknown_operator",
    "takes_any_target": "library.other_target",
    "guesses": "library.unknown_attribute",
    "takes_ints_for_floats": "library.attribute_kinds",
    "has_defaults_for_what_it_cannot_read": "library.attribute_kinds",
    "workspace_on_3": "library.properties",
    "changes_its_mind": "library.properties",
    "overwrites_properties": "library.structs",
    "ignores_tails": "library.structs",
    "counts_in_results": "library.repeatable",
    "writes_inputs": "library.repeatable",
    "writes_beyond": "library.repeatable",
    "skips_the_end": "library.repeatable",
    "clobbers_rounding": "library.repeatable",
    "needs_the_first_shard": "library.shards",
    "one_call_at_a_time": "library.calls_at_once",
    "takes_memory": "library.no_memory_in_enqueue",
    "attributes_of_the_newest": "library.attributes",
    "results_of_any_extents": "library.other_shapes",
    "results_of_any_type": "library.other_shapes",
    "gives_more_results": "library.other_shapes",
    "ignores_attribute_strides": "library.structs",
    "leaves_prepared_tables": "library.operations",
    "leaves_its_output": "library.other_target",
    "exhaustion_is_internal": "library.exhaustion",
    "shuts_down_with_operations": "library.shutdown_with_an_operation",
    "works_in_children": "library.forked_child",
    "destroys_null": "library.null",
}

# Operations, of heddle.cpu, which runs them.
OPERATIONS = kit.BUILD / "tests" / "odd_operations" / "test.odd_operations.toml"
OPERATION_MUTANTS = {
    "shards_run_twice": "operation.in_its_place",
    "runs_operations_first": "operation.in_its_place",
    "flushes_denormals": "operation.same_as_kernel",
    "swallows_failures": "operation.failure",
    "takes_any_target": "operation.other_target",
}

# oddity: (changes of the source, arguments of the kit, what shows it: cases with their outcome and text that the unchanged driver does not have)
ONE_QUEUE = ("timeline.across_queues", "absent", "the device has one queue")
HIDDEN = ("buffer.unmappable", "passed", "")
TINY = ("device.describe", "passed", "grids of 128x128x128")
STAGED = ("transfer.upload_captured", "passed", "")
ODDITIES = {
    "late": ("", ["--option", "latency_us=3000"], []),  # test_late_work_is_late
    "tiny": ("tiny", [], [TINY]),
    "one_queue": ("one_queue", [], [ONE_QUEUE]),
    "hidden_memory": ("hidden_memory", [], [HIDDEN]),
    "wide_alignment": ("wide_alignment+ends_at_a_fault", [], [("device.describe", "passed", "aligned to 65536"),
                                                             ("failure.device_lost", "absent", "ends the process, as the driver says")]),
    "staged_copies": ("staged_copies", [], [STAGED]),
    "decodes_blocks": ("decodes_blocks", [], [("blocks.values", "passed", ""), ("blocks.order", "passed", ""), ("blocks.refused", "passed", "")]),
    "least_functions": ("least_functions", [], [("device.link", "absent", "it describes no links"), ("plugin.probe", "absent", "")]),
    "short_tables": ("short_tables", [], [("recording.not_offered", "passed", "")]),
    "all at once": ("tiny+one_queue+hidden_memory+staged_copies", ["--option", "latency_us=500"], [TINY, ONE_QUEUE, HIDDEN, STAGED]),
}


# Rules that only the kit cites: a mutant whose case does.
CITES = {"answers_any_interface": "HD-E-05", "one_instance": "HD-E-06", "no_points": "HD-M-01", "ignores_barriers": "HD-Q-07"}


def run(changes, *arguments):
    os.environ["ODD_DRIVER"] = changes
    return kit.run(DRIVER, *arguments)


def run_allocator(changes, *arguments):
    os.environ["ODD_ALLOCATOR"] = changes
    return kit.run(ALLOCATOR, *arguments)


def run_streams(changes, *arguments):
    os.environ["ODD_STREAMS"] = changes
    os.environ["ODD_STREAMS_OVER"] = str(kit.BUILD / "lib/heddle/plugins.d/libheddle_pool.so")
    return kit.run(STREAMS, *arguments)


def run_operations(changes, *arguments):
    os.environ["ODD_OPERATIONS"] = changes
    os.environ["ODD_OPERATIONS_OVER"] = str(kit.BUILD / "lib/heddle/plugins.d/libheddle_cpu.so")
    return kit.run(OPERATIONS, *arguments)


def run_library(changes, *arguments):
    os.environ["ODD_LIBRARY"] = changes
    return kit.run(LIBRARY, *arguments)


def names_of_changes(*files):
    """The names in the lists of an odd plugin's sources."""
    text = "".join((kit.SOURCE / "tests/conformance" / file).read_text() for file in files)
    return set(re.findall(r'\{"(\w+)"(?:,(?:\s|//.*)*\[\]|\})', text))


def cases_of(expected):
    return (expected if isinstance(expected, str) else expected[0]).split(",")


class Mutants(unittest.TestCase):
    def catches(self, name, mutants, run_mutant):
        """Each mutant is caught by its case; the table goes to the folder test-results of the build."""
        lines, survived = [], []
        for mutant, expected in mutants.items():
            names, arguments = cases_of(expected), [] if isinstance(expected, str) else expected[1:]
            _, cases = run_mutant(mutant, "--filter", ",".join(names), *arguments)
            for case in names:
                found = cases[case]
                lines.append((mutant, "", case, found["outcome"], " ".join(found["texts"])))
                if mutant in CITES and f"[{CITES[mutant]}]" not in lines[-1][-1]:
                    survived.append(f"{mutant}: {case} does not cite {CITES[mutant]}: {found['texts']}")
                if found["outcome"] != "failed":
                    survived.append(f"{mutant}: {case} {found['outcome']} {found['texts']}")
        kit.write_table(name, lines)
        self.assertEqual(survived, [])

    def passes_unchanged(self, run_mutant):
        code, cases = run_mutant("")
        self.assertEqual(code, 0, [case for case in cases.values() if case["outcome"] == "failed"])
        return cases

    def test_every_mutant_is_caught_by_the_case_that_is_about_it(self):
        self.catches("mutants", MUTANTS, run)

    def test_a_case_that_crashes_or_hangs_leaves_no_file(self):
        for mutant, case, said in (("maps_files", "param_io.truncated", "it crashed"), ("hangs", "param_io.write", "it hung")):
            with tempfile.TemporaryDirectory() as folder:
                environment = {**kit.environment(), "ODD_DRIVER": mutant, "TMPDIR": folder}
                done = subprocess.run([str(kit.KIT), "--plugin", str(DRIVER), "--filter", case, "--time-limit", "3"], capture_output=True, text=True,
                                      timeout=300, env=environment, check=False)
                self.assertIn(said, done.stdout)
                self.assertEqual(os.listdir(folder), [])

    def test_every_mutant_of_the_allocator_is_caught(self):
        self.catches("mutants_allocator", ALLOCATOR_MUTANTS, run_allocator)
        cases = self.passes_unchanged(run_allocator)
        about = {name for name in cases if name.startswith("allocator.")}
        self.assertEqual(about - set(ALLOCATOR_MUTANTS.values()), set(STREAM_MUTANTS.values()))  # the template offers no stream order
        self.assertEqual(names_of_changes("odd_allocator.cpp"), set(ALLOCATOR_MUTANTS))

    def test_every_mutant_of_stream_order_is_caught(self):
        self.catches("mutants_streams", STREAM_MUTANTS, run_streams)
        self.passes_unchanged(run_streams)
        self.assertEqual(names_of_changes("odd_streams.cpp"), set(STREAM_MUTANTS))

    def test_every_mutant_of_operations_is_caught(self):
        self.catches("mutants_operations", OPERATION_MUTANTS, run_operations)
        cases = self.passes_unchanged(run_operations)
        self.assertEqual({name for name in cases if name.startswith("operation.")}, set(OPERATION_MUTANTS.values()))
        self.assertEqual(names_of_changes("odd_operations.cpp"), set(OPERATION_MUTANTS))

    def test_every_mutant_of_the_library_is_caught(self):
        self.catches("mutants_library", LIBRARY_MUTANTS, run_library)
        cases = self.passes_unchanged(run_library)
        self.assertEqual({name for name in cases if name.startswith("library.")}, set(LIBRARY_MUTANTS.values()))
        self.assertEqual(names_of_changes("odd_library.cpp"), set(LIBRARY_MUTANTS))

    def test_every_mutation_of_the_source_is_in_the_table(self):
        names = names_of_changes(*MUTATIONS, "odd_driver.cpp")
        used = {name for mutant in MUTANTS for name in mutant.split("+")}
        self.assertEqual(names, used - names_of_changes("oddities.cpp"))

    def test_what_is_no_change_is_not_taken_for_one(self):
        for run_mutant in (run, run_allocator, run_streams, run_operations, run_library):
            _, cases = run_mutant("nonsense", "--filter", "plugin.table")
            self.assertIn("there is no change 'nonsense'", " ".join(cases["plugin.table"]["texts"]))

    def test_every_behaviour_has_a_mutant(self):
        listed = subprocess.run([kit.KIT, "--list"], capture_output=True, text=True, check=True, env=kit.environment()).stdout
        tables = (MUTANTS, ALLOCATOR_MUTANTS, STREAM_MUTANTS, LIBRARY_MUTANTS, OPERATION_MUTANTS, foreign_test.MUTANTS)
        covered = {case for mutants in tables for expected in mutants.values() for case in cases_of(expected)}
        covered.update(case for expected, _, _ in files_test.MUTANTS.values() for case in expected)
        behaviors = {line.split()[0] for line in listed.splitlines()}
        self.assertEqual({one for one in behaviors if not one.startswith("target.")}, covered)  # mutants of targets are those of target_kit_test


def shows(cases, sign):
    case, outcome, text = sign
    return cases[case]["outcome"] == outcome and text in " ".join(cases[case]["texts"])


class Oddities(unittest.TestCase):
    def test_odd_drivers_that_keep_the_rules_pass(self):
        _, unchanged = run("")
        failed = {}
        for oddity, (changes, arguments, signs) in ODDITIES.items():
            _, cases = run(changes, *arguments)
            for name, case in cases.items():
                if case["outcome"] == "failed":
                    failed[f"{oddity}: {name}"] = case["texts"]
            self.assertGreater(kit.count(cases, "passed"), 95, oddity)
            for sign in signs:
                self.assertTrue(shows(cases, sign), f"{oddity} does not show: {sign}, {cases[sign[0]]}")
                self.assertFalse(shows(unchanged, sign), f"the unchanged driver shows it too: {sign}")
        self.assertEqual(failed, {})

    def test_late_work_is_late(self):
        # 88 transfers, one after the other; no machine is so fast that it makes them up.
        _, cases = run("", *ODDITIES["late"][1], "--filter", "transfer.sizes_and_offsets")
        self.assertGreater(cases["transfer.sizes_and_offsets"]["seconds"], 88 * 0.003)

    def test_every_oddity_of_the_source_is_in_the_table(self):
        used = {name for changes, _, _ in ODDITIES.values() for name in changes.split("+") if name}
        self.assertEqual(names_of_changes("oddities.cpp"), used | {"first_waits_are_late", "runs_portable_as_sample"})

    def test_work_that_was_measured_on_a_busy_machine_is_lengthened(self):
        # All measurements are ten times too long, after which the machine is idle: a single fill is too short to see whether submit blocks.
        case = "timeline.no_block"
        for changes, outcome in (("first_waits_are_late", "passed"), ("first_waits_are_late+submit_blocks", "failed")):
            _, cases = run(changes, "--filter", case)
            self.assertEqual(cases[case]["outcome"], outcome, cases[case]["texts"])

    def test_nothing_chosen_passes(self):
        code, cases = run("")
        self.assertEqual(code, 0, [case for case in cases.values() if case["outcome"] == "failed"])


if __name__ == "__main__":
    unittest.main()
