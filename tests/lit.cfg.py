# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# How lit finds and runs the text tests: every .mlir and .test file below this folder, except in folders named `inputs`.
# A test uses `heddle`, `heddle-opt` and the other built programs, `FileCheck`, `not`, `%python`, %s, %t and
# `%models` (tests/models), `%library` (manifests of tests/library), `%llvm` (the programs of the compiler's LLVM), and `%ptxas` where it REQUIRES: ptxas.
# Called by tools/dev/test with --param build=<build folder>.
import glob
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(__file__))
from lit_format import InAnyFolder, quoted  # noqa: E402

build = lit_config.params.get("build", os.path.join(os.path.dirname(__file__), "..", "build", "release"))  # noqa: F821
build = os.path.abspath(build)

config.name = "heddle"  # noqa: F821
config.test_format = InAnyFolder()  # noqa: F821
config.suffixes = [".mlir", ".test"]  # noqa: F821
config.excludes = ["corpus", "programs", "inputs", "graphs"]  # noqa: F821
config.test_source_root = os.path.dirname(__file__)  # noqa: F821
config.test_exec_root = os.path.join(build, "lit")  # noqa: F821

# Debian keeps the unversioned names of LLVM's test tools in its own folder.
tools = next((f for f in ("/usr/lib/llvm-19/bin",) if os.path.exists(os.path.join(f, "FileCheck"))), None)
if tools is None:
    lit_config.fatal("finding FileCheck of LLVM 19 failed: run tools/dev/setup")  # noqa: F821
config.environment["PATH"] = os.pathsep.join([os.path.join(build, "bin"), os.environ["PATH"], tools])  # noqa: F821
config.substitutions.append(("%llvm", tools))  # noqa: F821
if "HOME" in os.environ:
    config.environment["HOME"] = os.environ["HOME"]  # noqa: F821
# As heddle_add_test does; without a sanitizer nobody reads them.
suppressions = os.path.join(os.path.dirname(__file__), "sanitizers")
config.environment["UBSAN_OPTIONS"] = "print_stacktrace=1:halt_on_error=1"  # noqa: F821
config.environment["LSAN_OPTIONS"] = f"suppressions='{suppressions}/leak.supp':print_suppressions=0"  # noqa: F821
config.environment["TSAN_OPTIONS"] = f"suppressions='{suppressions}/thread.supp':print_suppressions=0"  # noqa: F821

python = os.path.join(build, "..", "..", ".venv", "bin", "python")
python = lit_config.params.get("python", python if os.path.exists(python) else shutil.which("python3"))  # noqa: F821
config.substitutions.append(("%python", quoted(python)))  # noqa: F821

# NVIDIA's assembler, of the toolkit or of the Python package that tools/dev/setup installs.
packages = os.path.join(os.path.dirname(python), "..", "lib", "python3*", "site-packages", "nvidia", "cu1[3-9]", "bin", "ptxas")
ptxas = next(iter(glob.glob(packages)), None) or shutil.which("ptxas")
if ptxas:
    config.available_features.add("ptxas")  # noqa: F821
    config.substitutions.append(("%ptxas", quoted(ptxas)))  # noqa: F821
config.substitutions.append(("%library", quoted(os.path.join(build, "tests", "library", "plugins.d"))))  # noqa: F821
config.substitutions.append(("%models", quoted(os.path.join(os.path.dirname(__file__), "models"))))  # noqa: F821
