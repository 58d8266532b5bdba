# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""scikit-learn's 1,797 handwritten digits, cut once into 80 % for training and 20 % held out.

Used by train.py, demo.py, the end-to-end tests and the benchmarks, so that all of them mean the same
images. Knows nothing of networks or of Heddle.
"""
import numpy as np
from sklearn.datasets import load_digits

SPLIT_SEED = 20240607
TRAINING_SHARE = 0.8


def load_split():
    """Returns (train_images, train_labels, held_out_images, held_out_labels).

    Images are f32 [n, 1, 8, 8] in 0..1 (the files' 0..16 divided by 16); labels are i64 [n] in 0..9.
    """
    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)[:, None, :, :]
    labels = digits.target.astype(np.int64)
    order = np.random.default_rng(SPLIT_SEED).permutation(len(images))
    cut = int(len(images) * TRAINING_SHARE)
    train, held_out = order[:cut], order[cut:]
    return images[train], labels[train], images[held_out], labels[held_out]
