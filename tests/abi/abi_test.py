# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tools/dev/abi.py on the public headers, and the proof that it finds what it is for: headers that are changed on purpose, each with what must be said.

HD-A-01: the ABI of every released minor stays, and what the headers have more than the newest one has a minor of its own.
"""
import lzma
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["HEDDLE_SOURCE"])
sys.path.insert(0, str(SOURCE / "tools" / "dev"))
import abi  # noqa: E402
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import writable  # noqa: E402

QUEUE = next(line for line in (SOURCE / "sdk" / "include" / "heddle" / "driver.h").read_text(encoding="utf-8").splitlines(True) if "uint32_t priority;" in line)
# (name, header, before, after, what must be said). Before is there exactly once.
BREAKS = (
    ("two fields change places", "driver.h", "  uint64_t source_offset;\n  uint64_t target_offset;\n", "  uint64_t target_offset;\n  uint64_t source_offset;\n",
     "heddle_copy_command: .*offset changed"),
    ("a field is wider", "driver.h", "  uint32_t queue_depth;", "  uint64_t queue_depth;", "heddle_param_io_params: .*queue_depth"),
    ("a field has another sign", "driver.h", "  int32_t numa_node;      /* -1 if unknown */", "  uint32_t numa_node;",
     "heddle_device_description: .*numa_node"),
    ("a field is gone from the end", "driver.h", "  uint64_t device_address; /* 0: none */\n", "",
     "heddle_buffer_properties: .*device_address"),
    ("a field has another name", "driver.h", QUEUE, "  uint32_t urgency;\n", "heddle_queue_params: .*urgency"),
    ("a field comes between others", "plugin.h", "  uint32_t kind;           /* bits HEDDLE_PLUGIN_* */\n",
     "  uint32_t kind;\n  heddle_string_t vendor;\n", "heddle_plugin: .*vendor"),
    ("a function is gone from a table", "driver.h", "  heddle_status_t* (*unmap)(heddle_buffer_t* buffer);\n", "",
     "heddle_buffer_interface: .*unmap"),
    ("a function comes between others", "driver.h", "  heddle_status_t* (*unmap)(heddle_buffer_t* buffer);\n",
     "  heddle_status_t* (*unmap)(heddle_buffer_t* buffer);\n  heddle_status_t* (*advise)(heddle_buffer_t* buffer);\n",
     "heddle_buffer_interface: .*advise"),
    ("two functions change places", "allocator.h",
     "  heddle_status_t* (*trim)(void* self, uint64_t keep_bytes);\n  heddle_status_t* (*holders)(void* self, heddle_holder_visitor_t visit, void* context);\n",
     "  heddle_status_t* (*holders)(void* self, heddle_holder_visitor_t visit, void* context);\n  heddle_status_t* (*trim)(void* self, uint64_t keep_bytes);\n",
     "heddle_provider: .*holders"),
    ("an argument of a table's function is wider", "driver.h",
     "(*count)(heddle_plugin_instance_t* instance, uint32_t* out_count);", "(*count)(heddle_plugin_instance_t* instance, uint64_t* out_count);",
     "heddle_device_interface: .*count"),
    ("a table's function has one more argument", "driver.h", "(*queue_destroy)(heddle_queue_t* queue);",
     "(*queue_destroy)(heddle_queue_t* queue, uint32_t flags);", "heddle_device_interface: .*queue_destroy"),
    ("a table's function returns nothing", "driver.h", "  heddle_status_t* (*queue_destroy)(heddle_queue_t* queue);",
     "  void (*queue_destroy)(heddle_queue_t* queue);", "heddle_device_interface: .*queue_destroy"),
    ("a frozen struct grows", "driver.h", "  uint64_t offset;\n  uint64_t length;\n} heddle_binding_t;",
     "  uint64_t offset;\n  uint64_t length;\n  uint64_t stride;\n} heddle_binding_t;", "heddle_binding: .*stride"),
    ("a frozen struct with struct_size grows", "driver.h", "  const heddle_point_t* signals;\n} heddle_sync_t;",
     "  const heddle_point_t* signals;\n  uint64_t more;\n} heddle_sync_t;", "struct heddle_sync' changed"),
    ("the negotiation grows", "plugin.h", "  char reason[256];          /* out: not NUL-terminated */\n",
     "  char reason[256];\n  uint32_t more;\n", "heddle_negotiation: .*more"),
    ("an array is longer", "plugin.h", "  char vendor_version[64];", "  char vendor_version[128];", "heddle_probe_result: .*vendor_version"),
    ("a union of a frozen struct is larger", "driver.h", "    uint64_t reserved[7];", "    uint64_t reserved[9];", "heddle_command: "),
    ("a field fills a hole at the end", "plugin.h", "  uint32_t vendor_version_size;\n", "  uint16_t vendor_version_size;\n  uint16_t hole;\n",
     "heddle_probe_result: .*vendor_version_size"),
    ("an exported function is gone", "runtime.h", "HEDDLE_EXPORT void heddle_call_cancel(heddle_call_t* call);", "", "heddle_call_cancel"),
    ("an exported function has another argument", "runtime.h", "heddle_call_wait(heddle_call_t* call, uint64_t timeout_ns)",
     "heddle_call_wait(heddle_call_t* call, uint32_t timeout_ns)", "heddle_call_wait"),
    ("a compiled kernel has another signature", "code.h", "uint64_t first, uint64_t last, void* workspace)",
     "uint32_t first, uint32_t last, void* workspace)", "heddle_x86_64_kernel_t"),
    ("what the entry is called with", "plugin.h", "(*heddle_plugin_entry_fn_t)(heddle_negotiation_t* negotiation)",
     "(*heddle_plugin_entry_fn_t)(heddle_negotiation_t* negotiation, void* host)", "heddle_plugin_entry_fn_t"),
    ("a typedef is wider", "types.h", "typedef uint32_t heddle_element_type_t;", "typedef uint64_t heddle_element_type_t;", "heddle_element_type_t"),
    ("a constant has another value", "driver.h", "#define HEDDLE_MEMORY_PINNED 4u", "#define HEDDLE_MEMORY_PINNED 8u",
     "HEDDLE_MEMORY_PINNED is 8u; it was 4u"),
    ("a constant is gone", "status.h", "#define HEDDLE_STATUS_ABORTED 10u\n", "", "HEDDLE_STATUS_ABORTED is gone; its value was 10u"),
    ("an interface has another id", "driver.h", '#define HEDDLE_DISPATCH_INTERFACE "heddle.dispatch/1"',
     '#define HEDDLE_DISPATCH_INTERFACE "heddle.dispatch/2"', "HEDDLE_DISPATCH_INTERFACE"),
    ("a constant is computed in another way", "types.h", "((UINT64_C(1) << 62) - 1)", "((UINT64_C(1) << 63) - 1)", "HEDDLE_TIMELINE_MAX_VALUE"),
    ("a macro with arguments means something else", "types.h", "(((type) >> 8) & 0xFFu)", "(((type) >> 16) & 0xFFu)", "HEDDLE_TYPE_BITS"),
    ("the entry has another name", "plugin.h", "#define HEDDLE_PLUGIN_ENTRY heddle_plugin_entry_0", "#define HEDDLE_PLUGIN_ENTRY heddle_plugin_entry_1",
     "HEDDLE_PLUGIN_ENTRY"),
    ("another major", "types.h", "#define HEDDLE_ABI_MAJOR 0", "#define HEDDLE_ABI_MAJOR 1", "HEDDLE_ABI_MAJOR is 1; it was 0"),
)

# What a minor may bring; it needs the bump.
ADDITIONS = (
    ("a field at the end", "driver.h", QUEUE, QUEUE + "  uint64_t affinity;\n", "heddle_queue_params has uint64_t affinity at its end"),
    ("a function at the end of a table", "allocator.h", "heddle_holder_visitor_t visit, void* context);\n} heddle_allocator_interface_t;",
     "heddle_holder_visitor_t visit, void* context);\n  heddle_status_t* (*defragment)(heddle_allocator_t* allocator);\n} heddle_allocator_interface_t;",
     "heddle_allocator_interface has .*defragment at its end"),
    ("a new interface", "ext/profile.h", "typedef struct heddle_profile_interface {",
     '#define HEDDLE_CLOCK_INTERFACE "heddle.clock/1"\ntypedef struct heddle_clock_interface {\n  uint32_t struct_size;\n  uint32_t reserved;\n'
     "  heddle_status_t* (*read)(heddle_device_t* device, uint64_t* out_ns);\n} heddle_clock_interface_t;\n\ntypedef struct heddle_profile_interface {",
     "heddle_clock_interface is new"),
    ("a new exported function", "runtime.h", "HEDDLE_EXPORT void heddle_call_cancel(heddle_call_t* call);",
     "HEDDLE_EXPORT void heddle_call_cancel(heddle_call_t* call);\nHEDDLE_EXPORT void heddle_call_suspend(heddle_call_t* call);",
     "heddle_call_suspend is new"),
    ("a new constant", "driver.h", "#define HEDDLE_MAP_DISCARD 4u", "#define HEDDLE_MAP_STREAM 8u\n#define HEDDLE_MAP_DISCARD 4u", "HEDDLE_MAP_STREAM is new"),
)


class Abi(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="heddle-abi-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.count = 0

    def headers(self, file=None, before="", after="", minor=None):
        """A copy of the public headers, changed in one place, as of that minor."""
        self.count += 1
        target = self.folder / f"headers{self.count}"
        writable.copytree(abi.HEADERS, target)
        if file:
            path = target / "heddle" / file
            text = path.read_text(encoding="utf-8")
            self.assertEqual(text.count(before), 1, f"{file}: {before}")
            path.write_text(text.replace(before, after), encoding="utf-8")
        if minor is not None:
            types = target / "heddle" / "types.h"
            text = types.read_text(encoding="utf-8")
            types.write_text(text.replace(f"#define HEDDLE_ABI_MINOR {abi.minor_of(abi.HEADERS)}\n", f"#define HEDDLE_ABI_MINOR {minor}\n"),
                             encoding="utf-8")
            self.assertEqual(abi.minor_of(target), minor)
        return target

    def release(self, minor):
        """The present headers as the only release there is, of that minor."""
        target = self.folder / f"released{minor}"
        target.mkdir()
        self.assertEqual(abi.main(["dump", str(self.headers(minor=minor)), str(target), str(minor)]), 0)
        return target

    def says(self, wrong, pattern):
        self.assertRegex("\n".join(wrong), pattern)


class TheHeaders(Abi):
    def test_they_have_all_of_every_release_and_the_minor_that_they_need(self):
        self.assertEqual(abi.check(), [])

    def test_every_release_is_whole(self):
        minors = abi.releases(abi.RELEASED)
        self.assertEqual(minors, list(range(1, len(minors) + 1)))
        for minor in minors:
            self.assertTrue((abi.RELEASED / f"0.{minor}.constants").is_file(), minor)
            self.assertTrue((SOURCE / "tests" / "compat" / f"0.{minor}.tar.xz").is_file(), minor)

    def test_nothing_of_the_headers_is_left_out(self):
        """Every struct, function and table of the text is in the library that abidiff compares."""
        symbols = lzma.decompress(max(abi.RELEASED.glob("0.*.abi.xz")).read_bytes()).decode()
        text = abi.anchor(abi.HEADERS)
        for name in ("heddle_host", "heddle_plugin", "heddle_negotiation", "heddle_dispatch_interface", "heddle_native_interface",
                     "heddle_profile_interface", "heddle_allocator_interface", "heddle_provider", "heddle_call_start", "heddle_status_create",
                     "heddle_compile", "heddle_x86_64_kernel_t", "heddle_plugin_entry_fn_t", "heddle_holder_visitor_t", "heddle_tensor_map"):
            self.assertIn(f"of_{name}(", text)
            self.assertIn(f"'of_{name}'", symbols)


class Changes(Abi):
    def test_every_break_is_found(self):
        released = self.release(7)
        for name, file, before, after, said in BREAKS:
            with self.subTest(name):
                # The bump does not excuse it.
                self.says(abi.check(self.headers(file, before, after, 8), released), f"against 0.7: .*{said}")

    def test_additions_need_the_next_minor(self):
        released = self.release(7)
        for name, file, before, after, said in ADDITIONS:
            with self.subTest(name):
                self.assertEqual(abi.check(self.headers(file, before, after, 8), released), [])
                for minor in (7, 9):
                    wrong = abi.check(self.headers(file, before, after, minor), released)
                    self.assertEqual(len(wrong), 1, wrong)
                    self.says(wrong, rf"HEDDLE_ABI_MINOR is {minor}, and the headers have more than 0.7, the newest release \(.*{said}.*\); set it to 8")

    def test_comments_and_spaces_are_free(self):
        released = self.release(7)
        changed = self.headers("driver.h", QUEUE, "  /* Which comes first. */\n  uint32_t   priority;\n", 7)
        self.assertEqual(abi.check(changed, released), [])

    def test_a_minor_that_is_not_the_next_is_found(self):
        released = self.release(7)
        self.assertEqual(abi.check(self.headers(minor=8), released), [])
        for minor in (6, 9):
            self.says(abi.check(self.headers(minor=minor), released), f"HEDDLE_ABI_MINOR is {minor}; 7 was expected, the newest release, or 8")

    def test_an_older_release_counts_as_much_as_the_newest(self):
        released = self.release(7)
        file, before, after, said = ADDITIONS[0][1:]
        self.assertEqual(abi.main(["dump", str(self.headers(file, before, after, 8)), str(released), "8"]), 0)
        self.assertEqual(abi.check(self.headers(file, before, after, 8), released), [])
        # What 0.8 had is gone again, and 0.7 never had it.
        self.says(abi.check(self.headers(minor=8), released), "against 0.8: heddle_queue_params: .*affinity")


class Command(Abi):
    def run_command(self, *words):
        return subprocess.run([sys.executable, "-B", str(SOURCE / "tools" / "dev" / "abi.py"), *words], capture_output=True, text=True, check=False,
                              timeout=120)

    def test_check_says_what_is_wrong_and_where_the_rule_is(self):
        self.assertEqual(self.run_command("check").returncode, 0)
        done = self.run_command("check", str(self.headers("driver.h", QUEUE, "  uint64_t priority;\n")))
        self.assertEqual(done.returncode, 1)
        self.assertIn("against 0.1: heddle_queue_params", done.stderr)
        self.assertIn("docs/abi.md says which change moves what [HD-A-01]", done.stderr)

    def test_what_is_no_folder_of_headers_is_said(self):
        done = self.run_command("check", str(self.folder))
        self.assertEqual((done.returncode, "has no headers of Heddle" in done.stderr), (1, True), done.stderr)
        for words in ((), ("dump",), ("check", "a", "b"), ("what",)):
            done = self.run_command(*words)
            self.assertEqual((done.returncode, "usage: abi.py" in done.stderr), (2, True), words)

    def test_a_dump_is_of_the_minor_that_it_says(self):
        done = self.run_command("dump", str(abi.HEADERS), str(self.folder), "99")
        self.assertEqual(done.returncode, 1)
        self.assertIn("not 0.99", done.stderr)
        self.assertEqual(list(self.folder.glob("0.*")), [])

    def test_a_released_minor_is_not_written_again(self):
        done = subprocess.run([SOURCE / "tools" / "dev" / "freeze-abi", "1"], capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual(done.returncode, 1)
        self.assertIn("a released minor does not change", done.stderr)
        for words in ([], ["x"], ["1", "2", "3"]):
            done = subprocess.run([SOURCE / "tools" / "dev" / "freeze-abi", *words], capture_output=True, text=True, check=False, timeout=120)
            self.assertEqual((done.returncode, "usage:" in done.stderr), (2, True), words)


if __name__ == "__main__":
    unittest.main()
