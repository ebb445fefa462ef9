"""Networks that pick the next job: made from weights, kept in files, and read from them as the policy `nn@FILE`.

A file is numpy's .npz without pickled objects. It states everything that its scores depend on, the names of the
features included, so that a network made for other features is refused instead of misread.

>>> import numpy as np
>>> shortest_first = np.zeros((FEATURES, 1), np.float32)
>>> shortest_first[list(FEATURES_OF_JOB).index("request")] = -1
>>> policy = picked_by(network_of([(shortest_first, np.zeros(1))], visible=64), base="fcfs", name="shortest")
>>> policy.name, policy.network.layers, policy.moves
('shortest', (16, 1), False)
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.engine.picks import FEATURES, FEATURES_OF_CLUSTER, FEATURES_OF_JOB
from batfill.errors import PolicyError
from batfill.files import whole_file
from batfill.policy import Network, Policy, policy_named

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

FORMAT = "batfill network 1"
VISIBLE = 128  # jobs that a network sees if nothing else is said
# What numpy and zipfile raise on damaged files.
DAMAGE = (
    OSError,
    ValueError,
    EOFError,
    KeyError,
    TypeError,
    OverflowError,
    MemoryError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)
MEND = "write it with `batfill.save_network`"


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


def picked_by(network: Network, *, base: str = "fcfs", name: str = "nn", **more: Any) -> Policy:
    """The policy under which the network picks the next job, and `base` orders the queue and the backfilling.

    Args:
        network: see `network_of`.
        base: a policy whose order is fixed, by its name; not one in a file.
        name: of the new policy.
        **more: fields of `Policy`.

    Raises:
        PolicyError: the base is unknown or in a file, or its order moves.
    """
    order = base_named(base)
    widths = "-".join(map(str, network.layers))
    return Policy(
        name,
        order.key,
        order.per_wait,
        per_expansion=order.per_expansion,
        formula=f"a network of {widths} units picks among the first {network.visible} by {order.name}",
        network=network,
        **more,
    )


def base_named(name: str) -> Policy:
    """The base order of this name; PolicyError if it is none, or in a file, which may change."""
    if "@" in name:
        raise PolicyError(f"network: its base order {name!r} is in another file; take a policy with a name")
    return policy_named(name)


def save_network(
    path: str | Path, network: Network, *, base: str = "fcfs", about: Mapping[str, Any] | None = None
) -> None:
    """Write a network to a file, for the policy `nn@FILE`; equal arguments give equal bytes.

    Args:
        path: the file; any name.
        network: see `network_of`.
        base: the order of the queue, see `picked_by`.
        about: how the network was made, as JSON; read by people only.

    Raises:
        BatfillError: the base is unusable, `about` is not JSON, or the file cannot be written.

    Examples:
        >>> import tempfile
        >>> import numpy as np
        >>> network = network_of([(np.zeros((FEATURES, 1)), np.zeros(1))])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_network(f"{folder}/zeros.npz", network, base="saf", about={"by": "hand"})
        ...     network_in_file(f"nn@{folder}/zeros.npz").formula
        'a network of 16-1 units picks among the first 128 by saf'
    """
    picked_by(network, base=base)  # refuses an order that moves
    try:
        text = json.dumps(dict(about or {}))
    except (TypeError, ValueError) as error:
        raise PolicyError(f"{path}: about is not JSON ({error}); give numbers, texts, lists and objects") from None
    with whole_file(Path(path)) as stream:
        np.savez(
            stream,
            format=np.array(FORMAT),
            features_of_job=np.array(list(FEATURES_OF_JOB)),
            features_of_cluster=np.array(list(FEATURES_OF_CLUSTER)),
            layers=np.array(network.layers, np.int64),
            weights=np.asarray(network.weights, np.float32),
            visible=np.array(network.visible, np.int64),
            base=np.array(base_named(base).name),
            about=np.array(text),
        )


def network_in_file(text: str) -> Policy:
    """The policy of `nn@FILE`.

    Raises:
        PolicyError: the file cannot be read, is damaged or not such a file, or is for other features.
    """
    text = text.strip()
    path = Path(text.partition("@")[2])
    where = f"policy {text}"
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
    except DAMAGE:
        raise PolicyError(f"{where}: the file is not a whole .npz file of numpy's; {MEND}") from None
    if text_in(kept, "format") != FORMAT:
        raise PolicyError(f"{where}: the file is not a network's ({FORMAT}); {MEND}")
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
        return picked_by(
            network,
            base=text_in(kept, "base"),
            name=f"nn@{path}",
            source=f"{path}: {about}",
            digest=sha256(content).hexdigest(),
        )
    except KeyError as error:
        raise PolicyError(f"{where}: the file lacks {error}; {MEND}") from None
    except json.JSONDecodeError:
        raise PolicyError(f"{where}: its text about how it was made is not JSON; {MEND}") from None
    except PolicyError as error:
        why = str(error)
        raise PolicyError(why if why.startswith(where) else f"{where}: {why}; {MEND}") from None


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
