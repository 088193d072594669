"""Where a selector keeps what: the rows of ``arms``, the places in ``memory`` and in ``settings``."""

# rows of ``arms``
ACTIVE = 0  # 1 while the arm may be chosen
COUNT = 1  # own episodes
TOTAL = 2  # payoffs of own episodes, summed
SCORE = 3  # EXP-3: log-weight; Tsallis-INF: estimated loss so far; policy reuse: mean return
WEIGHT = 4  # EXP-3: exp(log-weight - shift)
PROBABILITY = 5  # of the latest ask
DROPPED = 6  # the episode after which the arm was eliminated, -1 while it was not
DEVIATION = 7  # confidence sequence: sum of (x_n - mean_n)^2
SLOPE = 8  # sum of lambda_n
WEIGHTED = 9  # sum of lambda_n x_n
CHARGE = 10  # sum of (x_n - mean_{n-1})^2 (-ln(1 - lambda_n) - lambda_n)
N_ROWS = 11

# places in ``memory``
EPISODE = 0  # episodes told
PENDING = 1  # the arm asked for and not yet told, or -1
SHIFT = 2  # EXP-3: what weights are relative to; Tsallis-INF: the normaliser
CLIPPED = 3  # returns clipped into the bounds
NEXT_CHECK = 4  # the number of episodes told at which sources are next compared
N_MEMORY = 5

# places in ``settings``
KIND = 0
LOWER = 1
UPPER = 2
CLIP = 3
ELIMINATION = 4
DELTA = 5
CHECK_EVERY = 6
RATE = 7  # EXP-3: beta; Tsallis-INF: 1 for reduced variance; policy reuse: temperature; balancing: kappa
RISE = 8  # policy reuse: what the temperature rises by per episode; balancing: the floor's factor
LEAST = 9  # the bounds with room for rounding
MOST = 10
N_SETTINGS = 11

EXP3, TSALLIS, BALANCING, SOFTMAX = 0, 1, 2, 3  # KIND
NONE, PAPER, ANYTIME = 0, 1, 2  # ELIMINATION
