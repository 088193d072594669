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
import time
from collections.abc import Callable, Iterator
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
REWARD, OBSERVATION, RETURN = 1, 2, 3  # what was not finite
LARGEST = float(np.finfo(np.float32).max)
FIRST_STOP, LARGEST_KEPT = 32, 2**28  # steps; bytes of episodes that wait to be put together anew
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
    """Of each episode: its return, the sum of its rewards, its steps, and what was not finite, 0 for nothing."""

    total: Array
    plain: Array
    steps: Array
    wrong: Array


class Lanes(NamedTuple):
    """Episodes under way [tiles, width, ...]; sums are pairs, high and low."""

    observation: Any
    state: Tree
    going: Any
    total: tuple[Any, Any]
    plain: tuple[Any, Any]
    steps: Any
    wrong: Any


class Program(NamedTuple):
    """The compiled episodes of one environment and one shape of networks: how they begin, and how they go on."""

    begin: Callable[..., Any]
    advance: Callable[..., Any]


def program(
    reset: Callable[..., Any], step: Callable[..., Any], layers: Layers, observed: Any = None
) -> Program:  # fmt: skip
    """The program of an environment and a shape of networks; ``played`` runs it.

    ``reset(key, params)`` gives an observation and a state, ``step(key, state, action, params)`` these, a reward and
    whether the episode is over. Each tile is given its own network and each lane its own parameters, so the numbers of
    networks and tasks are no part of what is compiled. Observations become of the type ``observed``, where it is given.
    """

    def seen(observation: Any) -> Any:
        return observation if observed is None else jnp.asarray(observation, observed)

    def begin(settings: Tree, seed: Any, going: Any) -> Lanes:
        keys = _lanes(jax.random.PRNGKey)(seed)
        observation, state = _lanes(reset)(_lanes(jax.random.fold_in, 0, None)(keys, 0), settings)
        none, nothing = jnp.zeros(seed.shape, jnp.float32), jnp.zeros(seed.shape, jnp.int32)
        observation = seen(observation)
        lost = going & ~_finite(observation)
        wrong = jnp.where(lost, OBSERVATION, nothing)
        return Lanes(observation, state, going & ~lost, (none, none), (none, none), nothing, wrong)

    def advance(own: Networks, settings: Tree, seed: Any, weights: Any, n: Any, until: Any, lanes: Lanes) -> Lanes:
        keys = _lanes(jax.random.PRNGKey)(seed)

        def one_step(now: tuple[Any, Lanes]) -> tuple[Any, Lanes]:
            n, lanes = now
            action = acted(lanes.observation, own, layers)
            chances = _lanes(jax.random.fold_in, 0, None)(keys, n + 1)
            observation, state, reward, over = _lanes(step)(chances, lanes.state, action, settings)
            state = jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), state, lanes.state)
            return n + 1, _summed(lanes, seen(observation), state, reward.astype(jnp.float32), over, weights[n])

        def goes_on(now: tuple[Any, Lanes]) -> Any:
            return (now[0] < until) & jnp.any(now[1].going)

        return lax.while_loop(goes_on, one_step, (n, lanes))[1]

    return Program(jax.jit(begin), jax.jit(advance))


@jax.jit
def _taken(tree: Tree, numbers: Any) -> Tree:
    """The entries of these numbers; the first axis of every leaf of the tree is that of the entries."""
    return jax.tree.map(lambda leaf: leaf[numbers], tree)


def _summed(lanes: Lanes, observation: Any, state: Tree, reward: Any, over: Any, weight: Any) -> Lanes:
    """Lanes after a step; those that were over before it keep their sums."""
    going = lanes.going
    now = jnp.where(jnp.isfinite(reward), jnp.where(_finite(observation) | over, 0, OBSERVATION), REWARD)
    bad = now == REWARD
    high, low = add(lanes.plain, reward)
    plain = jnp.where(bad, reward, high), jnp.where(bad, 0.0, low)  # the reward is told
    total = add_weighted(lanes.total, reward, weight)
    plain, total, wrong = jax.tree.map(
        lambda new, old: jnp.where(going, new, old), (plain, total, now.astype(jnp.int32)),
        (lanes.plain, lanes.total, lanes.wrong),
    )  # fmt: skip
    return Lanes(observation, state, going & ~over & (now == 0), total, plain, lanes.steps + going, wrong)


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


class Clock:
    """Calls a program for so few steps that a call takes a small part of ``limit`` seconds; None is no limit.

    The first call is one step. The next is 8 times as long where one took less than a 64th of the limit, and an 8th as
    long where it took more than an 8th. ``watch(what, function)`` makes the calls, and can look at the time meanwhile.
    """

    def __init__(self, limit: float | None = None, watch: Callable[..., Any] | None = None) -> None:
        self.limit, self.watch = limit, watch
        self.size = 1  # of a block: its steps times its tiles

    def call(self, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """What the function returns, when it is there."""
        if self.limit is None or self.watch is None:
            return function(*arguments)
        begun = time.monotonic()
        returned = self.watch(what, _there, function, *arguments)
        took = time.monotonic() - begun
        if took < self.limit / 64 and what != "reset":
            self.size *= 8
        elif took > self.limit / 8:
            self.size = max(1, self.size // 8)
        return returned

    def blocks(self, n: int, until: int, tiles: int) -> Iterator[tuple[int, int]]:
        """Steps n .. until in blocks: the first step of each, and the one after its last."""
        while n < until:
            last = until if self.limit is None else min(until, n + max(1, self.size // tiles))
            yield n, last
            n = last


def _there(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a compiled function returns, when it is there."""
    return jax.block_until_ready(function(*arguments))  # type: ignore[no-untyped-call]


def played(
    run: Program, networks: Networks, params: Tree, episodes: Episodes, *, gamma: float, horizon: int,
    lane_bytes: int, most_lanes: int | None = None, clock: Clock | None = None,
) -> Played:  # fmt: skip
    """Play all episodes, in batches that fit the memory; ``lane_bytes`` is what a lane takes.

    ``params`` has the parameters of all tasks, stacked [N, ...]. ``most_lanes`` limits a batch further. On a CPU those
    that still go on after 32, 64, 128, ... steps are put together anew, so that few lanes are idle. With a ``clock``,
    the program is called for few steps at a time.
    """
    clock = clock or Clock()
    width = CPU_WIDTH if jax.default_backend() == "cpu" else OTHER_WIDTH
    most, weights = (
        max(1, min(lanes_that_fit(lane_bytes), most_lanes or MOST_LANES) // width),
        weights_of(gamma, horizon),
    )
    found = Played(*(np.zeros(len(episodes.seed), kind) for kind in (np.float64, np.float64, np.int32, np.int32)))
    numbers, left = _by_policy(episodes)
    networks, params = jax.device_put((networks, params))
    kept, n = None, 0

    def run_batch(batch: _Batch, until: int) -> Lanes:
        seed, own = batch.filled(left.seed.astype(np.uint32)), _taken(networks, batch.acting)
        settings = _taken(params, batch.filled(left.task.astype(np.int32)))
        lanes: Lanes
        if kept is None:
            fresh = batch.filled(np.ones(len(left.seed), np.bool_))
            lanes = clock.call("reset", run.begin, settings, seed, fresh)
        else:
            lanes = jax.tree.map(batch.filled, kept)
        for first, last in clock.blocks(n, until, len(batch.acting)):
            what = "step" if last == first + 1 else f"a block of {last - first} steps"
            steps = np.int32(first), np.int32(last)
            lanes = clock.call(what, run.advance, own, settings, seed, weights, *steps, lanes)
        return lanes

    for until in _stops(horizon, lane_bytes * len(numbers)):
        going: list[tuple[Array, Lanes]] = []
        for batch in _batches(left.policy, width, most):
            lanes = run_batch(batch, until)
            sums = (lanes.total, lanes.plain, [lanes.steps], [lanes.wrong])
            for whole, parts in zip(found, sums, strict=True):
                whole[numbers[batch.chosen]] = sum(batch.taken(part).astype(whole.dtype) for part in parts)
            if until < horizon:
                alive = np.flatnonzero(batch.taken(lanes.going))
                going.append(
                    (alive + batch.chosen.start, jax.tree.map(lambda leaf, a=alive, b=batch: b.taken(leaf)[a], lanes))
                )
        if not any(len(some) for some, _ in going):
            break
        some = np.concatenate([some for some, _ in going])
        kept = jax.tree.map(lambda *parts: np.concatenate(parts), *(lanes for _, lanes in going))
        numbers, left, n = numbers[some], Episodes(*(part[some] for part in left)), until
    too_large = ~(np.isfinite(found.total) & np.isfinite(found.plain))
    found.wrong[too_large & (found.wrong == 0)] = RETURN
    return found


def _by_policy(episodes: Episodes) -> tuple[Array, Episodes]:
    """Episodes in the order of their policies, and which they are."""
    policy = episodes.policy
    if bool((policy[1:] >= policy[:-1]).all()):
        return np.arange(len(policy)), episodes
    order = np.argsort(policy, kind="stable")
    return order, Episodes(*(part[order] for part in episodes))


def _stops(horizon: int, size: int) -> list[int]:
    """The steps after which episodes are put together anew; ``size`` is what all of them take."""
    if jax.default_backend() != "cpu" or size > LARGEST_KEPT:
        return [horizon]
    return [*(FIRST_STOP * 2**k for k in range(horizon.bit_length()) if FIRST_STOP * 2**k < horizon), horizon]


class _Batch(NamedTuple):
    """Some episodes, next to each other, and the lanes they have; ``acting`` is the policy of each tile."""

    chosen: slice
    lane: Array
    acting: Array
    width: int

    def filled(self, values: Array) -> Array:
        """Values of all episodes as tiles of these [tiles, width, ...], 0 in lanes without an episode."""
        tiles = np.zeros((len(self.acting) * self.width, *values.shape[1:]), values.dtype)
        tiles[self.lane] = values[self.chosen]
        return tiles.reshape(len(self.acting), self.width, *values.shape[1:])

    def taken(self, tiles: Any) -> Array:
        """The values of these episodes from tiles."""
        array = np.asarray(tiles)
        values: Array = array.reshape(-1, *array.shape[2:])[self.lane]
        return values


def _batches(policy: Array, width: int, most: int) -> Iterator[_Batch]:
    """Episodes, ordered by policy, in batches of at most ``most`` tiles; a tile has one policy."""
    counts = np.bincount(policy)
    needed = -(-counts // width)
    shift = (np.cumsum(needed) - needed) * width - (np.cumsum(counts) - counts)  # of each policy
    place, acting = np.arange(len(policy)) + np.repeat(shift, counts), np.repeat(np.arange(len(counts)), needed)
    for first in range(0, len(acting), most):
        some = acting[first : first + most].astype(np.int32)
        begin, end = np.searchsorted(place, [first * width, (first + len(some)) * width]).tolist()
        idle = np.zeros(round_size(len(some), most) - len(some), np.int32)
        yield _Batch(slice(begin, end), place[begin:end] - first * width, np.append(some, idle), width)


def round_size(n: int, most: int = MOST_LANES) -> int:
    """A number of tiles, networks or tasks rounded up, since every size is compiled: large ones waste an eighth."""
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
