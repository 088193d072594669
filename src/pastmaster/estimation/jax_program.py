"""Episodes of many networks in one JAX environment, run as one program. It needs JAX and NumPy, nothing else.

An episode is a *lane*. Lanes are in tiles of a fixed width, and one network acts in all lanes of a tile: a layer is a
product of matrices [tiles, width, in] x [tiles, in, out]. On a CPU such a product gives a lane the same bits whatever
else is in its tile and however many tiles there are, so a return depends on its episode alone.

The chances of an episode are those of its seed: ``reset`` gets the key ``fold_in(key, 0)`` and step n = 1, 2, ... gets
``fold_in(key, n)``. Environments and networks compute in float32. Returns are sums of two float32 numbers, with the
precision of about 36 bits: products of parts with 12 bits each are exact, and what an addition rounds off is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import lax

Array = npt.NDArray[Any]
Tree = Any  # of arrays
CPU_WIDTH, OTHER_WIDTH = 64, 256  # lanes of a tile
CPU_LANES, MOST_LANES = 2**11, 2**24  # of a batch, at most: on a CPU what its caches hold
SHARE = 0.5  # of the free memory that a batch may take
UNKNOWN_MEMORY = 2**30  # bytes taken as free where the device does not say
REWARD, OBSERVATION = 1, 2  # what was not finite
FEWEST_WEIGHTS = 512  # discounts of steps, at least: their number is part of what is compiled

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "tanh": jnp.tanh, "relu": jax.nn.relu, "leaky_relu": lambda x: jnp.where(x >= 0, x, 0.01 * x), "elu": jax.nn.elu,
    "selu": jax.nn.selu, "sigmoid": jax.nn.sigmoid, "silu": jax.nn.silu,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False), "softplus": jax.nn.softplus,
    "mish": lambda x: x * jnp.tanh(jax.nn.softplus(x)), "identity": lambda x: x,
}  # fmt: skip


class Layers(NamedTuple):
    """What the networks of a program share, as ``policies.stack.Shape`` has it."""

    activations: tuple[str, ...]
    head: str = "argmax"
    one_hot: bool = False
    start: int = 0
    nvec: tuple[int, ...] = ()
    box: tuple[int, ...] = ()


class Networks(NamedTuple):
    """P networks: weights [P, in, out] and biases [P, out] of each layer, limits of actions, and normalisation."""

    weights: list[Array]
    biases: list[Array]
    limits: list[Array] | None = None
    normal: list[Array] | None = None


class Episodes(NamedTuple):
    """E episodes: the network, the task and the seed of each."""

    policy: Array
    task: Array
    seed: Array


class Played(NamedTuple):
    """Of each episode: its return, the sum of its rewards, its steps, and what was not finite in the last one."""

    total: Array
    plain: Array
    steps: Array
    wrong: Array


def program(reset: Callable[..., Any], step: Callable[..., Any], layers: Layers) -> Callable[..., Any]:
    """The compiled episodes of one environment and one shape of networks; ``played`` calls it.

    ``reset(key, params)`` gives an observation and a state, ``step(key, state, action, params)`` these, a reward and
    whether the episode is over.
    """

    def play(
        networks: Networks, params: Tree, policy: Any, task: Any, seed: Any, going: Any, weights: Any, horizon: Any
    ) -> Any:
        own = jax.tree.map(lambda leaf: leaf[policy], networks)
        settings = jax.tree.map(lambda leaf: leaf[task], params)
        keys = _lanes(jax.random.PRNGKey)(seed)
        observation, state = _lanes(reset)(_lanes(jax.random.fold_in, 0, None)(keys, 0), settings)
        none, nothing = jnp.zeros(seed.shape, jnp.float32), jnp.zeros(seed.shape, jnp.int32)

        def goes_on(lanes: Any) -> Any:
            return (lanes[0] < horizon) & jnp.any(lanes[3])

        def one_step(lanes: Any) -> Any:
            n, observation, state, going, total, plain, steps, wrong = lanes
            action = acted(observation, own, layers)
            chances = _lanes(jax.random.fold_in, 0, None)(keys, n + 1)
            observation, after, reward, over = _lanes(step)(chances, state, action, settings)
            state = jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), after, state)
            reward = reward.astype(jnp.float32)
            now = jnp.where(jnp.isfinite(reward), jnp.where(_finite(observation) | over, 0, OBSERVATION), REWARD)
            paid = jnp.where(going, reward, 0.0)
            total, (high, low) = add_weighted(total, paid, weights[n]), add(plain, paid)
            bad = going & (now == REWARD)
            plain = jnp.where(bad, reward, high), jnp.where(bad, 0.0, low)  # the reward is told
            wrong, steps = jnp.where(going, now, wrong).astype(jnp.int32), steps + going
            return n + 1, observation, state, going & ~over & (now == 0), total, plain, steps, wrong

        lanes = (jnp.int32(0), observation, state, going, (none, none), (none, none), nothing, nothing)
        return lax.while_loop(goes_on, one_step, lanes)[-4:]

    return jax.jit(play)


def _finite(observation: Any) -> Any:
    """Which lanes have an observation that is finite in all parts."""
    if not jnp.issubdtype(observation.dtype, jnp.inexact):
        return jnp.ones(observation.shape[:2], jnp.bool_)
    return jnp.all(jnp.isfinite(observation).reshape(*observation.shape[:2], -1), axis=-1)


def add(total: Any, x: Any) -> Any:
    """A sum of two float32 numbers, high and low, plus x: what the addition rounds off goes into the low one."""
    high, low = total
    after = high + x
    part = after - high
    return after, low + ((high - (after - part)) + (x - part))


def add_weighted(total: Any, x: Any, weight: Any) -> Any:
    """A sum plus x times a weight that is given in three parts of 12 bits."""
    first = lax.bitcast_convert_type(
        lax.bitcast_convert_type(x, jnp.uint32) & jnp.uint32(0xFFFFF000), jnp.float32
    )  # its first 12 bits
    rest = x - first
    for part in (first * weight[0], first * weight[1], rest * weight[0]):
        total = add(total, part)
    return total[0], total[1] + (first * weight[2] + rest * weight[1])


def weights_of(gamma: float, horizon: int) -> Array:
    """gamma^n in three float32 parts of 12 bits [n, 3], at least ``horizon`` of them: few sizes are compiled."""
    size = max(FEWEST_WEIGHTS, 2 ** (horizon - 1).bit_length())
    left = np.cumprod(np.append(1.0, np.full(size - 1, gamma)))
    parts = np.zeros((size, 3), np.float32)
    for k in range(3):
        parts[:, k] = (left.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFF000)).view(np.float32)
        left = left - parts[:, k]
    return parts


def _lanes(function: Callable[..., Any], *axes: int | None) -> Callable[..., Any]:
    """A function of one lane as a function of tiles of lanes."""
    each = axes or 0
    return jax.vmap(jax.vmap(function, each), each)


def acted(observation: Any, own: Networks, layers: Layers) -> Any:
    """Actions [tiles, width, ...] of each tile's own network, as the environment takes them."""
    first, *following = (ACTIVATIONS[name] for name in layers.activations)
    x = first(_first_layer(observation, own, layers))
    for weights, biases, activation in zip(own.weights[1:], own.biases[1:], following, strict=True):
        x = activation(_affine(x, weights, biases))
    if layers.head == "argmax":
        return jnp.argmax(x, axis=-1).astype(jnp.int32) + layers.start
    if layers.head == "argmaxes":
        parts = jnp.split(x, np.cumsum(layers.nvec)[:-1].tolist(), axis=-1)
        return jnp.stack([jnp.argmax(part, axis=-1).astype(jnp.int32) for part in parts], axis=-1)
    assert own.limits is not None
    low, high = own.limits
    x = x.reshape(*x.shape[:2], *layers.box)
    return jnp.clip(x, low, high) if layers.head == "clip" else low + 0.5 * (jnp.tanh(x) + 1.0) * (high - low)


def _first_layer(observation: Any, own: Networks, layers: Layers) -> Any:
    if layers.one_hot:
        states = observation.reshape(observation.shape[:2])
        return jnp.take_along_axis(own.weights[0], states[:, :, None], axis=1) + own.biases[0][:, None]
    x = observation.reshape(*observation.shape[:2], -1).astype(jnp.float32)
    if own.normal is not None:
        mean, deviation, clip = own.normal
        x = jnp.clip((x - mean) / deviation, -clip, clip)
    return _affine(x, own.weights[0], own.biases[0])


def _affine(x: Any, weights: Any, biases: Any) -> Any:
    """x [tiles, width, in] times weights [tiles, in, out] plus biases, in float32 on any device."""
    return jnp.einsum("tlm,tmd->tld", x, weights, precision=lax.Precision.HIGHEST) + biases[:, None]


def played(
    play: Callable[..., Any], networks: Networks, params: Tree, episodes: Episodes, *, gamma: float, horizon: int,
    lane_bytes: int, most_lanes: int | None = None,
) -> Played:  # fmt: skip
    """Play all episodes, in batches that fit the memory; ``lane_bytes`` is what a lane takes.

    ``params`` has the parameters of all tasks, stacked [N, ...]. ``most_lanes`` limits a batch further.
    """
    width = CPU_WIDTH if jax.default_backend() == "cpu" else OTHER_WIDTH
    order, place, policy = _tiles(episodes.policy, width)
    most = max(1, min(lanes_that_fit(lane_bytes), most_lanes or MOST_LANES) // width)
    weights = weights_of(gamma, horizon)
    found = Played(*(np.zeros(len(place), kind) for kind in (np.float64, np.float64, np.int32, np.int32)))
    for first in range(0, len(policy), most):
        some = policy[first : first + most]
        size = round_size(len(some), most)
        begin, end = np.searchsorted(place, [first * width, (first + len(some)) * width]).tolist()
        lane, chosen = place[begin:end] - first * width, slice(begin, end) if order is None else order[begin:end]
        task, seed, going = (np.zeros(size * width, kind) for kind in (np.int32, np.uint32, np.bool_))
        task[lane], seed[lane], going[lane] = episodes.task[chosen], episodes.seed[chosen], True
        lanes = (part.reshape(size, width) for part in (task, seed, going))
        acting = np.append(some, np.zeros(size - len(some), np.int32))
        total, plain, steps, wrong = play(networks, params, acting, *lanes, weights, np.int32(horizon))
        for whole, parts in zip(found, (total, plain, [steps], [wrong]), strict=True):
            whole[chosen] = sum(np.asarray(part).ravel()[lane].astype(whole.dtype) for part in parts)
    return found


def _tiles(policy: Array, width: int) -> tuple[Array | None, Array, Array]:
    """How episodes are put into tiles of one policy each: their order (None: as they are), lanes, and whose tiles.

    Of the episodes in that order, the lanes ascend; a policy's last tile may have lanes without an episode.
    """
    sorted_already = bool((policy[1:] >= policy[:-1]).all())
    counts = np.bincount(policy)
    needed = -(-counts // width)
    shift = (np.cumsum(needed) - needed) * width - (np.cumsum(counts) - counts)  # of each policy
    place = np.arange(len(policy)) + np.repeat(shift, counts)
    order = None if sorted_already else np.argsort(policy, kind="stable")
    return order, place, np.repeat(np.arange(len(counts), dtype=np.int32), needed)


def round_size(n: int, most: int) -> int:
    """A number of tiles rounded up, since every size is compiled anew: few are small, large ones waste an eighth."""
    step = n if n == 1 else 8 if n <= 8 else max(32, 2 ** (n - 1).bit_length() // 16)
    return max(n, min(-(-n // step) * step, most))


def lanes_that_fit(lane_bytes: int) -> int:
    """How many lanes a batch may have on this machine."""
    on_cpu = jax.default_backend() == "cpu"
    return min(CPU_LANES if on_cpu else MOST_LANES, max(1, int(SHARE * free_bytes()) // lane_bytes))


def free_bytes() -> int:
    """The free memory of the device that JAX uses, or of the machine where that is its processor."""
    stats = jax.devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return max(0, int(stats["bytes_limit"]) - int(stats.get("bytes_in_use", 0)))
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):  # no Linux
        return UNKNOWN_MEMORY


def bytes_of_lane(reset: Callable[..., Any], params: Tree, networks: Networks) -> int:
    """About what a lane takes: its observation, state and parameters twice, its widest layers, and its sums."""
    one = jax.tree.map(lambda leaf: np.zeros(leaf.shape[1:], leaf.dtype), params)
    observation, state = jax.eval_shape(reset, jax.random.PRNGKey(0), one)
    leaves = [*jax.tree.leaves(observation), *jax.tree.leaves(state), *jax.tree.leaves(one)]
    own: int = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves)
    width: int = max(layer.shape[2] for layer in networks.weights)
    per_tile: int = sum(layer.shape[1] * layer.shape[2] for layer in networks.weights)
    return 2 * own + 4 * (3 * width + 2 * per_tile // CPU_WIDTH) + 128
