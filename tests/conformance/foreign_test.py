# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Proof of the conformance kit by mutants that its author did not write: each patch in `foreign` gives a template one bug, written from the headers and
the numbered rules alone. It is applied to a copy of the template and of sdk/cpp, built out of the tree, and caught by the case that is about
what it breaks. A patch's first lines say what the bug is, which rule it breaks and what a host sees. The table goes to
test-results/conformance_foreign_mutants.txt of the build."""
import concurrent.futures
import filecmp
import functools
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import kit

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import writable  # noqa: E402

PATCHES = pathlib.Path(__file__).parent / "foreign"
ORIGINAL = kit.SOURCE / "sdk"
OBJECTS = tempfile.TemporaryDirectory(prefix="heddle-foreign-")

# template: (its folder below sdk, its sources, its library, its manifest)
TEMPLATES = {
    "allocator_c": ("template/allocator/c", ["allocator.c"], "libsample_allocator_c.so", "org.example.system.toml"),
    "allocator_cpp": ("template/allocator/cpp", ["arena.cpp"], "libsample_allocator.so", "org.example.arena.toml"),
    "driver_c": ("template/driver/c", ["driver.c", "work.c"], "libsample_driver_c.so", "org.example.sample_c.toml"),
    "driver_cpp": ("template/driver/cpp", ["plugin.cpp", "device.cpp", "code.cpp", "own_kernels.cpp"], "libsample_driver.so", "org.example.sample.toml"),
    "library_c": ("template/library/c", ["scale.c"], "libsample_library_c.so", "org.example.scale.toml"),
    "library_cpp": ("template/library/cpp", ["whiten.cpp"], "libsample_library.so", "org.example.whiten.toml"),
}

# mutant: the case that must catch it
MUTANTS = {
    "allocator_c/destroy_of_null": "allocator.null",
    "allocator_c/exhaustion_names_nobody": "allocator.exhaustion",
    "allocator_c/own_token_goes_down": "allocator.gives_back",
    "allocator_c/owners_by_address": "allocator.holders",
    "allocator_c/peak_lags": "allocator.statistics",
    "allocator_c/refused_block_is_not_cleared": "allocator.sizes",
    "allocator_c/total_of_allocated_falls": "allocator.statistics",
    "allocator_cpp/aligns_the_offset_only": "allocator.sizes",
    "allocator_cpp/destroy_drops_points": "allocator.gives_back",
    "allocator_cpp/largest_free_is_the_sum": "allocator.statistics",
    "allocator_cpp/length_is_rounded": "allocator.sizes",
    "allocator_cpp/one_point_is_enough": "allocator.waits",
    "allocator_cpp/provider_calls_are_not_counted": "allocator.statistics",
    "allocator_cpp/retries_are_not_counted": "allocator.exhaustion",
    "allocator_cpp/size_wraps": "allocator.sizes",
    "allocator_cpp/trim_keeps_nothing_below": "allocator.trim",
    "allocator_cpp/waiting_blocks_have_owners": "allocator.holders",
    "allocator_cpp/waiting_counts_as_allocated": "allocator.statistics",
    "driver_c/alignment_above_a_page": "buffer.alignment",
    "driver_c/allocate_leaves_its_output": "buffer.bad_params",
    "driver_c/barrier_write_after_read": "transfer.barrier",
    "driver_c/cancel_in_the_first_extent": "param_io.cancelled_meanwhile",
    "driver_c/cancel_read_once": "param_io.cancelled_meanwhile",
    "driver_c/close_forgets_executables": "lifetime.close_with_children",
    "driver_c/close_forgets_files": "lifetime.close_with_children",
    "driver_c/close_of_null": "lifetime.null",
    "driver_c/copy_2d_gap": "transfer.copy_2d",
    "driver_c/copy_2d_last_row": "transfer.copy_2d",
    "driver_c/describe_writes_the_tail": "structs.outputs",
    "driver_c/description_divides": "device.describe",
    "driver_c/discard_clears_the_buffer": "buffer.map_visibility",
    "driver_c/empty_buffer_is_null": "buffer.zero_size",
    "driver_c/empty_range_at_the_end": "buffer.subrange_bounds",
    "driver_c/empty_read_never_signals": "param_io.bounds",
    "driver_c/empty_submission_ignores_waits": "failure.kernel",
    "driver_c/entry_index_ends_late": "dispatch.unknown_kernel",
    "driver_c/entry_keeps_a_copy": "entry.pure",
    "driver_c/entry_leaves_its_output": "dispatch.unknown_kernel",
    "driver_c/entry_opens_a_library": "entry.pure",
    "driver_c/entry_stride_ignored": "dispatch.larger_entries",
    "driver_c/errno_of_a_refused_file": "param_io.access",
    "driver_c/executable_load_leaves_its_output": "dispatch.foreign_code",
    "driver_c/extent_length_32_bits": "param_io.over_4_gib",
    "driver_c/fail_first_signal_only": "failure.travels",
    "driver_c/fails_before_the_end": "failure.kernel",
    "driver_c/file_offset_32_bits": "param_io.far_offset",
    "driver_c/file_open_leaves_its_output": "param_io.access",
    "driver_c/fill_phase": "transfer.fill_at_any_offset",
    "driver_c/fill_tail": "transfer.fill",
    "driver_c/format_by_its_beginning": "dispatch.foreign_code",
    "driver_c/largest_value_refused": "timeline.initial_value",
    "driver_c/load_resets_rounding": "dispatch.floating_point",
    "driver_c/lost_device_still_maps": "failure.device_lost",
    "driver_c/lower_failure_is_dropped": "failure.first_sticks",
    "driver_c/map_leaves_its_output": "buffer.subrange_bounds",
    "driver_c/mapped_once": "buffer.map_counts",
    "driver_c/negotiates_below_the_host": "entry.refusal",
    "driver_c/open_leaves_its_output": "device.ordinals",
    "driver_c/open_unblocks_signals": "device.handles",
    "driver_c/padding_is_not_given_back": "buffer.reuse",
    "driver_c/poisons_one_value": "failure.first_sticks",
    "driver_c/progress_of_the_extent": "param_io.progress",
    "driver_c/query_tells_failed_value": "failure.first_sticks",
    "driver_c/queue_create_leaves_its_output": "device.priorities",
    "driver_c/queue_destroy_of_null": "lifetime.null",
    "driver_c/queue_destroyed_early": "lifetime.work_pending",
    "driver_c/refused_file_keeps_descriptor": "param_io.access",
    "driver_c/region_in_hexadecimal": "failure.kernel",
    "driver_c/second_failure_leaks": "failure.first_sticks",
    "driver_c/short_read_is_success": "param_io.short_read",
    "driver_c/signals_reach_the_thread": "lifetime.signals",
    "driver_c/statuses_of_the_first_host": "plugin.two_hosts",
    "driver_c/thread_outlives_its_device": "lifetime.devices",
    "driver_c/timeline_create_leaves_its_output": "timeline.initial_value",
    "driver_c/transfer_swallows_failed_wait": "failure.transfers",
    "driver_c/unloadable_atexit": "lifetime.unload",
    "driver_c/unloadable_thread_key": "lifetime.unload_last",
    "driver_c/unloadable_watcher": "lifetime.unload",
    "driver_c/update_is_borrowed": "transfer.update_captured",
    "driver_c/wait_in_a_forked_child": "lifetime.forked_child",
    "driver_c/wait_timeout_32_bits": "timeline.timeout",
    "driver_c/wait_timeout_microseconds": "timeline.timeout",
    "driver_c/waits_are_borrowed": "timeline.across_queues",
    "driver_c/work_goes_on_after_loss": "failure.device_lost",
    "driver_c/zero_grid_refused": "dispatch.zero_workgroups",
    "driver_cpp/claims_captured_uploads": "transfer.upload_captured",
    "driver_cpp/extent_counted_without_empty_ones": "param_io.short_read",
    "driver_cpp/failed_import_is_not_released": "buffer.import_failure",
    "driver_cpp/imports_are_counted_for_ever": "device.statistics",
    "driver_cpp/late_notification_hears_no_failure": "timeline.notify",
    "driver_cpp/notified_under_the_lock": "timeline.notify",
    "driver_cpp/read_only_counts_as_dynamic": "recording.read_only",
    "driver_cpp/recording_borrows_update": "recording.captures",
    "driver_cpp/replay_keeps_offset": "recording.new_bindings",
    "driver_cpp/unloadable_thread_local": "lifetime.unload",
    "driver_cpp/updates_are_not_counted": "device.statistics",
    "library_c/attribute_stride_ignored": "library.structs",
    "library_c/extents_are_not_compared": "library.other_shapes",
    "library_c/flags_of_inexact_results_stay": "library.repeatable",
    "library_c/one_factor_for_all": "library.attributes",
    "library_c/prepare_leaves_its_output": "library.other_target",
    "library_c/result_type_unread": "library.other_shapes",
    "library_c/second_result_taken": "library.other_shapes",
    "library_c/table_outlives_its_operation": "library.operations",
    "library_cpp/attributes_of_the_neighbour": "library.structs",
    "library_cpp/plan_of_the_first": "library.attributes",
    "library_cpp/results_are_not_compared": "library.other_shapes",
}

LARGE = {"param_io.over_4_gib"}  # cases of --large; a mutant that fails one touches little of the 4 GiB

FLAGS = ["-fPIC", "-fvisibility=hidden"] + ([f"-fsanitize={os.environ['HEDDLE_SANITIZE']}"] if kit.SANITIZED else [])
COMPILERS = {".c": [os.environ.get("CC", "cc"), "-std=c11", "-O1"], ".cpp": [os.environ.get("CXX", "c++"), "-std=c++20", "-O0"]}


def run(*command, cwd=None):
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}:\n{(done.stdout + done.stderr)[-2000:]}")


def compile_one(source, sdk, target):
    run(*COMPILERS[source.suffix], *FLAGS, f"-I{sdk / 'cpp'}", f"-I{ORIGINAL / 'include'}", "-c", source, "-o", target)
    return target


@functools.lru_cache(maxsize=None)
def unchanged_objects():
    """The templates' sources as they are, each compiled once: {source: object}."""
    sources = [ORIGINAL / template / name for template, names, _, _ in TEMPLATES.values() for name in names]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        targets = [pathlib.Path(OBJECTS.name) / f"{i}.o" for i in range(len(sources))]
        return dict(zip(sources, pool.map(compile_one, sources, [ORIGINAL] * len(sources), targets)))


def build(mutant, folder):
    """Builds the mutant in the folder; its manifest."""
    template, sources, library, manifest = TEMPLATES[mutant.split("/")[0]]
    for part in ("cpp", template):
        writable.copytree(ORIGINAL / part, folder / "sdk" / part)
    run("patch", "--strip=1", "--fuzz=0", "--batch", "--forward", "--no-backup-if-mismatch", f"--input={PATCHES / mutant}.patch", cwd=folder)
    sdk = folder / "sdk"
    files = {file.relative_to(sdk) for file in sdk.rglob("*") if file.is_file()}
    changed = {file for file in files if not filecmp.cmp(sdk / file, ORIGINAL / file, shallow=False)}
    has_headers = any(file.suffix == ".h" for file in changed)
    objects = []
    for source in [pathlib.Path(template) / name for name in sources]:
        if has_headers or source in changed:
            objects.append(compile_one(sdk / source, sdk, folder / f"{source.name}.o"))
        else:
            objects.append(unchanged_objects()[ORIGINAL / source])
    # What the patch changes of sdk/cpp comes before the archive, which gives the rest.
    for source in sorted(file for file in changed if file.parts[0] == "cpp" and file.suffix == ".cpp"):
        objects.append(compile_one(sdk / source, sdk, folder / f"{source.name}.o"))
    archive = [kit.BUILD / "lib/libheddle_sdk_cpp.a"] if template.endswith("cpp") else []
    run(COMPILERS[".cpp"][0], "-shared", *FLAGS, *objects, *archive, f"-Wl,--version-script={sdk / template / 'plugin.map'}", "-pthread", "-o",
        folder / library)
    writable.copy(sdk / template / manifest, folder)
    if (sdk / template / "conformance").is_dir():
        writable.copytree(sdk / template / "conformance", folder / "conformance")
    return folder / manifest


def rule_of(mutant):
    for line in (PATCHES / f"{mutant}.patch").read_text().splitlines():
        if line.startswith("Rule: "):
            return line[len("Rule: "):]
    raise AssertionError(f"{mutant}.patch does not say which rule it breaks")


def try_mutant(mutant):
    """(the line of the table, what is wrong or None)"""
    case = MUTANTS[mutant]
    with tempfile.TemporaryDirectory(prefix="heddle-foreign-") as folder:
        arguments = ("--large",) if case in LARGE else ("--time-limit", "5")
        _, cases = kit.run(build(mutant, pathlib.Path(folder)), "--filter", case, *arguments)
    found = cases[case]
    line = (mutant, rule_of(mutant), case, found["outcome"], " ".join(found["texts"]))
    return line, None if found["outcome"] == "failed" else f"{mutant}: {case} {found['outcome']} {found['texts']}"


class ForeignMutants(unittest.TestCase):
    def test_each_patch_is_in_the_table(self):
        patches = {f"{path.parent.name}/{path.stem}" for path in PATCHES.glob("*/*.patch")}
        self.assertEqual(patches, set(MUTANTS))

    def test_each_is_caught_by_the_case_that_is_about_it(self):
        unchanged_objects()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            results = list(pool.map(try_mutant, MUTANTS))
        kit.write_table("foreign_mutants", [line for line, _ in results])
        self.assertEqual([wrong for _, wrong in results if wrong], [])


if __name__ == "__main__":
    unittest.main()
