# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How lit runs a text test whose paths have spaces. Used by lit.cfg.py; a module of its own, since lit's processes import it by name."""
import os
import re

import lit.formats
import lit.TestRunner


def quoted(path):
    """As one word of a shell, also between the single quotes of `sh -c`."""
    return re.sub(r"([^\w./+,:@-])", r"\\\1", path)


class InAnyFolder(lit.formats.ShTest):
    """A text test whose paths may have spaces."""

    def execute(self, test, lit_config):
        source = test.getSourcePath()
        paths = {"%s": source, "%S": os.path.dirname(source), "%t": lit.TestRunner.getTempPaths(test)[1] + ".tmp"}
        return lit.TestRunner.executeShTest(test, lit_config, False, [(name, quoted(path)) for name, path in paths.items()])
