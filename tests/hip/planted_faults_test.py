# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each fault that planted_faults.py plants is still an expression of the sources. Whether it is found takes minutes, and is a command of its own."""
import unittest

import planted_faults


class PlantedFaults(unittest.TestCase):
    def test_each_can_be_planted(self):
        self.assertEqual(planted_faults.misplaced(), [])
        self.assertGreaterEqual(len(planted_faults.FAULTS), 12)


if __name__ == "__main__":
    unittest.main()
