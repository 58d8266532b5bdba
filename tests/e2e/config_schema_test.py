# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`heddle config schema` against the reader of heddle.toml: what the reader refuses for its form, the schema refuses, and nothing else."""
import json
import re
import tomllib

import jsonschema
from heddle_command import HeddleTestCase, REPOSITORY, heddle

TRANSCRIPTS = REPOSITORY / "tests" / "unit" / "transcripts"
PAGE = REPOSITORY / "docs" / "configuration.md"
# Errors in what a file says rather than in its form: syntax (no document at all), files, names, contradictions. A schema sees the last two
# only in part.
NOT_OF_FORM = {"E101", "E106", "E107", "E201", "E202", "E207"}


class Schema(HeddleTestCase):
    def setUp(self):
        super().setUp()
        result = self.succeed("config", "schema", "--plugin-path", TRANSCRIPTS / "plugins.d")
        self.schema = json.loads(result.stdout)
        jsonschema.Draft202012Validator.check_schema(self.schema)
        self.validator = jsonschema.Draft202012Validator(self.schema)

    def mistakes(self, document):
        return [f"{error.json_path}: {error.message}" for error in self.validator.iter_errors(document)]

    def test_it_agrees_with_the_reader(self):
        judged = 0
        for path in sorted((TRANSCRIPTS / "config").glob("*.toml")):
            codes = set(re.findall(r"error\[(E\d+)\]", path.with_suffix(".txt").read_text(encoding="utf-8", errors="replace")))
            if codes & NOT_OF_FORM and not codes - NOT_OF_FORM or "E101" in codes:
                continue
            mistakes = self.mistakes(tomllib.loads(path.read_text(encoding="utf-8")))
            self.assertEqual(bool(mistakes), bool(codes), f"{path.name}: the reader finds {codes or 'nothing'}, the schema {mistakes}")
            judged += 1
        self.assertGreaterEqual(judged, 8)

    def test_each_mistake_is_found_alone(self):
        for text in ('version = 2', 'pools = 1', '[plugins]\npaths = ["relative"]', '[plugins.pin]\n"heddle.cpu" = "1.0"',
                     '[plugins.security]\nmode = "paranoid"', '[modules.security]\ndigests = ["ab"]', '[driver."heddle.cpu"]\nthreads = "many"',
                     '[driver."heddle.cpu"]\nthreds = 1', '[device.a]\ndriver = "heddle.cpu"',
                     '[device.a]\ndriver = "heddle.cpu"\nselect = { ordinal = 0, pci = "0000:00:00.0" }',
                     '[device.a]\ndriver = "heddle.cpu"\nselect = { ordinal = -1 }', '[param_io]\nqueue_depth = 0', '[param_io]\nchunk = "4 megs"',
                     '[[route]]\nslot = "stage"\nto = ["a"]', '[[route]]\nslot = "@a"\nto = []', '[[link]]\nbetween = ["a", "a"]',
                     '[log]\nlevel = "loud"', '[trace]\nsink = "t.json"\ncategories = ["dispach"]', '[trace]\ncategories = ["dispatch"]', '[[prefer]]\nop = "conv"'):
            with self.subTest(text):
                self.assertTrue(self.mistakes(tomllib.loads(text)))
                file = self.folder / "heddle.toml"
                file.write_text(text)
                self.assertNotEqual(heddle("config", "check", file, "--plugin-path", TRANSCRIPTS / "plugins.d").code, 0)

    def test_the_example_of_the_page_passes(self):
        block = re.search(r"^```toml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL).group(1)
        self.assertEqual(self.mistakes(tomllib.loads(block)), [])


if __name__ == "__main__":
    import unittest

    unittest.main()
