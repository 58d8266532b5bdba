# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A test that imports this has a folder of its own for what heddle.torch and PyTorch keep on disk, until its process ends."""
import atexit
import os
import tempfile

_folder = tempfile.TemporaryDirectory(prefix="heddle-torch-test-")
atexit.register(_folder.cleanup)
FOLDER = _folder.name
os.environ["HEDDLE_TORCH_CACHE"] = FOLDER
os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(FOLDER, "graphs")
