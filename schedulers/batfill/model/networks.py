"""Networks that pick the next job: made from weights, and kept in files.

A file is numpy's .npz without pickled objects. It states everything that its scores depend on, the names of the
features included, so that a network made for other features is refused instead of misread.

>>> import numpy as np
>>> shortest_first = np.zeros((FEATURES, 1), np.float32)
>>> shortest_first[list(FEATURES_OF_JOB).index("request")] = -1
>>> network_of([(shortest_first, np.zeros(1))], visible=64).layers
(16, 1)
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.errors import PolicyError
from batfill.base.files import whole_file
from batfill.engine.features import FEATURES, FEATURES_OF_CLUSTER, FEATURES_OF_JOB

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import ArrayLike, NDArray

FORMAT = "batfill network 1"
VISIBLE = 128  # jobs that a network sees if nothing else is said
# What numpy and zipfile raise on damaged files, besides errors of their own.
DAMAGE = (OSError, ValueError, EOFError, KeyError, TypeError, OverflowError, MemoryError, RuntimeError)
MOST_VISIBLE = 1_000_000  # jobs that a network may choose from
REMEDY = "write it with `batfill.save_network`"


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """A small neural network that picks the next job among the first waiting ones; see `engine/picks.py`.

    Raises:
        PolicyError: the widths are not those of a network, the weights do not fit them or are not finite, or `visible`
            is out of range.
    """

    layers: tuple[int, ...]  # the layers' widths: the inputs first, then hidden ones if there are any, 1 last
    weights: NDArray[np.float32]  # of each layer in turn (inputs, outputs), then its biases (outputs,), in one row
    visible: int  # the most jobs it chooses from

    def __post_init__(self) -> None:
        widths = self.layers
        if len(widths) < 2 or widths[0] != FEATURES or widths[-1] != 1 or min(widths) < 1:
            shown = "-".join(map(str, widths)) or "none"
            raise PolicyError(f"network: its layers are {shown} units wide; the first needs {FEATURES}, the last 1")
        n_weights = sum((before + 1) * width for before, width in pairwise(widths))
        if self.weights.shape != (n_weights,):
            raise PolicyError(
                f"network: weights of shape {self.weights.shape}; layers of these widths have {n_weights:,}"
            )
        if not np.isfinite(self.weights).all():
            raise PolicyError("network: a weight is not a finite number; train it again")
        if not 1 <= self.visible <= MOST_VISIBLE:
            raise PolicyError(f"network: it sees {self.visible} jobs; let it see 1 to {MOST_VISIBLE:,}")


def network_of(layers: Sequence[tuple[ArrayLike, ArrayLike]], *, visible: int = VISIBLE) -> Network:
    """The network of these layers, with rectified linear units between them.

    Args:
        layers: of each layer in turn its weights, shape (inputs, outputs), and its biases, (outputs,). The first has
            `FEATURES` inputs, those of FEATURES_OF_JOB and then of FEATURES_OF_CLUSTER, and the last one output, the
            score. torch's `Linear.weight` is transposed: give `weight.T`.
        visible: the most jobs it chooses from, the first ones of the queue.

    Raises:
        PolicyError: the shapes do not fit together, or a weight is not a finite number in float32.
    """
    pairs = [(as_floats(weights), as_floats(biases)) for weights, biases in layers]
    for number, (weights, biases) in enumerate(pairs, 1):
        before = pairs[number - 2][0].shape[-1] if number > 1 else FEATURES
        if weights.ndim != 2 or weights.shape[0] != before or biases.shape != weights.shape[1:]:
            raise PolicyError(
                f"network: layer {number} has weights of shape {weights.shape} and biases of shape {biases.shape}, and "
                f"needs ({before}, n) and (n,); transpose torch's weights"
            )
    widths = (FEATURES, *(len(biases) for _, biases in pairs))
    flat = [part.ravel() for pair in pairs for part in pair]
    return Network(widths, np.concatenate([np.zeros(0, np.float32), *flat]), visible)


def as_floats(values: ArrayLike) -> NDArray[np.float32]:
    """The values as float32; PolicyError if they are not numbers."""
    try:
        with np.errstate(over="ignore"):  # an infinite weight is refused by `Network`
            return np.asarray(values).astype(np.float32)
    except (TypeError, ValueError):
        raise PolicyError("network: weights and biases must be arrays of numbers; give numpy's") from None


def write_network(path: Path, network: Network, base: str, about: str) -> None:
    """Write the file; `policy.save_network` explains the arguments, and has checked them."""
    with whole_file(path) as stream:
        np.savez(
            stream,
            format=np.array(FORMAT),
            features_of_job=np.array(list(FEATURES_OF_JOB)),
            features_of_cluster=np.array(list(FEATURES_OF_CLUSTER)),
            layers=np.array(network.layers, np.int64),
            weights=np.asarray(network.weights, np.float32),
            visible=np.array(network.visible, np.int64),
            base=np.array(base),
            about=np.array(about),
        )


def read_network(path: Path, where: str) -> tuple[Network, str, str, str]:
    """The network in a file, the name of its base order, how it was made, and the file's sha256.

    Raises:
        PolicyError: the file cannot be read, is damaged or not such a file, or is for other features; the message
            begins with `where`.
    """
    import zipfile
    import zlib

    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        what = getattr(error, "strerror", None) or str(error)
        raise PolicyError(f"{where}: {str(path)!a} cannot be read ({what}); check the path") from None
    try:
        with zipfile.ZipFile(io.BytesIO(content)):  # np.load also takes other kinds of files
            pass
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            kept = dict(stored)
    except (*DAMAGE, zipfile.BadZipFile, zlib.error):
        raise PolicyError(f"{where}: the file is not a whole .npz file of numpy's; {REMEDY}") from None
    if text_in(kept, "format") != FORMAT:
        raise PolicyError(f"{where}: the file is not a network's ({FORMAT}); {REMEDY}")
    for kind, known in (("features_of_job", FEATURES_OF_JOB), ("features_of_cluster", FEATURES_OF_CLUSTER)):
        found = kept.get(kind, np.array([])).ravel().tolist()
        if found != list(known):
            raise PolicyError(
                f"{where}: its {kind.replace('_', ' ')} are {', '.join(map(str, found)) or 'missing'}, and those here "
                f"{', '.join(known)}; train it on these"
            )
    about = text_in(kept, "about")
    try:
        layers, visible = integers_in(kept, "layers", 1), integers_in(kept, "visible", 0)
        weights = kept["weights"]
        if weights.dtype != np.float32:
            raise PolicyError(f"its weights are {weights.dtype}, not float32")
        json.loads(about)
        network = Network(tuple(layers), weights, visible[0])
    except KeyError as error:
        raise PolicyError(f"{where}: the file lacks {error}; {REMEDY}") from None
    except json.JSONDecodeError:
        raise PolicyError(f"{where}: its text about how it was made is not JSON; {REMEDY}") from None
    except PolicyError as error:
        raise PolicyError(f"{where}: {error.on_command_line}; {REMEDY}") from None
    return network, text_in(kept, "base"), about, sha256(content).hexdigest()


def text_in(kept: Mapping[str, NDArray[Any]], name: str) -> str:
    """The text of this name in the file; "" if it is none."""
    value = kept.get(name)
    return str(value) if value is not None and value.ndim == 0 and value.dtype.kind == "U" else ""


def integers_in(kept: Mapping[str, NDArray[Any]], name: str, ndim: int) -> list[int]:
    """The whole numbers of this name in the file; KeyError or PolicyError if there are none."""
    values = kept[name]
    if values.dtype.kind not in "iu" or values.ndim != ndim:
        raise PolicyError(f"its {name} are not whole numbers in {ndim} dimensions")
    numbers: list[int] = values.ravel().tolist()
    return numbers
