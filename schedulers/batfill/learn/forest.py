"""A random forest that classifies one job in microseconds: trained by scikit-learn, evaluated by a compiled loop."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from batfill.base.errors import optional
from batfill.base.host import cpu_count
from batfill.base.kernels import F4, I8, Array, entry, kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from sklearn.ensemble import RandomForestClassifier

TREES = 50
LEAST_IN_LEAF = 5  # jobs; smaller leaves memorise single jobs and make the forest several times larger
MOST_PER_TREE = 10_000  # jobs drawn for one tree; on KTH-SP2 neither more jobs nor more trees were more accurate

# A node's children stand next to each other. A leaf has feature -1, and `threshold` holds its share of small jobs.
NODE = np.dtype([("threshold", "f8"), ("feature", "i4"), ("left", "i4"), ("right", "i4"), ("unused", "i4")])


class Forest:
    """A trained forest."""

    def __init__(self, features: NDArray[np.float32], small: NDArray[np.bool_], seed: int) -> None:
        """Train on these jobs: `features` are (n_jobs, n_features), and both classes are present."""
        grown = optional("sklearn.ensemble", "learn").RandomForestClassifier(
            TREES,
            min_samples_leaf=LEAST_IN_LEAF,
            max_samples=min(MOST_PER_TREE, len(small)),
            random_state=seed,
            n_jobs=cpu_count(),
        )
        grown.fit(features, small)
        self.importances: NDArray[np.float64] = grown.feature_importances_
        self.nodes, self.roots = flattened(grown)

    def probability(self, features: list[float]) -> float:
        """The probability that a job with these features is small: the mean over the trees of the leaf's share."""
        return float(walk(self.nodes, self.roots, np.array(features, np.float32)))


def grown_beside(grow: Callable[[], Forest]) -> Future[Forest]:
    """Train a forest on a thread, so that the scheduler can go on answering messages."""
    with_thread = ThreadPoolExecutor(1, "forest")
    forest = with_thread.submit(grow)
    with_thread.shutdown(wait=False)  # the thread ends with its work
    return forest


def load_forest_code() -> None:
    """Import what training and prediction need, which takes a second or two."""
    Forest(np.array([[0.0], [1.0]], np.float32), np.array([False, True]), 0).probability([0.0])


def flattened(grown: RandomForestClassifier) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    trees = [estimator.tree_ for estimator in grown.estimators_]
    roots = np.cumsum([0, *(tree.node_count for tree in trees)])
    nodes = np.zeros(roots[-1], NODE)
    for root, tree in zip(roots[:-1].tolist(), trees, strict=True):
        here = nodes[root : root + tree.node_count]
        leaf = tree.children_left < 0
        here["feature"] = np.where(leaf, -1, tree.feature)
        counts = tree.value[:, 0, :]
        here["threshold"] = np.where(leaf, counts[:, 1] / counts.sum(axis=1), tree.threshold)
        here["left"] = tree.children_left + root
        here["right"] = tree.children_right + root
    return nodes, roots[:-1]


@entry(NODE, I8, Array(F4, read=True), gives=float, brief=True)
@kernel
def walk(nodes: NDArray[np.void], roots: NDArray[np.int64], x: NDArray[np.float32]) -> float:
    """The mean value of the leaves that x falls into."""
    total = 0.0
    for root in roots:
        node = root
        while nodes[node].feature >= 0:
            if x[nodes[node].feature] <= nodes[node].threshold:
                node = np.int64(nodes[node].left)
            else:
                node = np.int64(nodes[node].right)
        total += nodes[node].threshold
    return total / len(roots)
